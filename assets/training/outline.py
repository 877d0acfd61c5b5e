"""The properties of a schema as a list, for the wording that other models get.

The program does the same in `crates/runtime/src/extract/outline.rs`; here are only the
schemas that the scripts make. The wording itself is `crates/runtime/src/extract/prompt.txt`.
"""
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
WORDING = os.path.join(HERE, "..", "..", "crates", "runtime", "src", "extract", "prompt.txt")
DATES = {"date": "date, YYYY-MM-DD", "date-time": "date and time, YYYY-MM-DDTHH:MM:SSZ", "time": "time, HH:MM:SSZ"}


def kind(s):
    """(words for the type of a value, the object whose properties follow)."""
    if "enum" in s:
        return "one of " + ", ".join(json.dumps(v, ensure_ascii=False) for v in s["enum"]), None
    if "const" in s:
        return json.dumps(s["const"], ensure_ascii=False), None
    if "anyOf" in s:
        parts = [kind(b) for b in s["anyOf"]]
        return " or ".join(w for w, _ in parts), next((o for _, o in parts if o), None)
    words, inner = [], None
    for t in s["type"] if isinstance(s["type"], list) else [s["type"]]:
        if t == "string" and "format" in s:
            t = DATES.get(s["format"], f"string ({s['format']})")
        elif t == "boolean":
            t = "true or false"
        elif t == "array":
            w, inner = kind(s["items"])
            t = "array of " + w
        elif t == "object":
            inner = s
        words.append(t)
    return " or ".join(words), inner


def properties(s, depth=0):
    out = []
    for name, value in s["properties"].items():
        words, inner = kind(value)
        more = f" ({value['description']})" if "description" in value else ""
        out.append("  " * depth + f"- {name}: {words}{more}")
        if inner:
            out += properties(inner, depth + 1)
    return out


def outline(schema):
    """The lines, or the schema itself where it is no object."""
    if "properties" not in schema:
        return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return "\n".join(properties(schema))


def user_message(text, schema, instructions=""):
    """The user message of the general wording."""
    with open(WORDING, encoding="utf-8") as f:
        wording = f.read().rstrip()
    for name, value in dict(fields=outline(schema), instructions=instructions, examples="").items():
        wording = wording.replace("{" + name + "}", value)
    wording = re.sub(r"\n{3,}", "\n\n", wording)  # before the text, which keeps its lines
    return wording.replace("{text}", text)
