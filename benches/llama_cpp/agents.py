"""Tools as agents declare them, with which llama.cpp's grammar has had trouble, and requests for them.

The numbers are public threads of llama.cpp that report such tools; tools and requests are written for this file.
Requests are in the words of people, not in those of the schema.
"""


def tool(name, properties, required=None, about="", **more):
    parameters = {"type": "object", "properties": properties, "additionalProperties": False,
                  "required": list(properties) if required is None else required, **more}
    return {"name": name, "description": about, "parameters": parameters}


def text(**more):
    return {"type": "string", **more}


def many(count):
    """A list as several servers together have it: each tool with a few properties, most of them optional."""
    verbs = ["list", "get", "create", "update", "delete", "search", "archive", "share", "move", "export"]
    things = ["page", "issue", "event", "file", "contact", "invoice"]
    out = []
    for i in range(count):
        verb, thing = verbs[i % len(verbs)], things[i // len(verbs) % len(things)]
        properties = {
            "id": text(pattern="^[a-z0-9-]{4,36}$"), "title": text(maxLength=200),
            "state": {"enum": ["open", "closed", "all"]}, "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            "labels": {"type": "array", "items": text(maxLength=50), "maxItems": 20},
            "filter": {"type": "object", "properties": {"after": text(format="date"), "by": text()}, "additionalProperties": False},
        }
        name = f"{thing}_{verb}" + (f"_{i // 60}" if i >= 60 else "")
        out.append(tool(name, properties, ["id"], f"{verb.capitalize()} a {thing}."))
    return out


CASES = {
    "`maxLength` 524,288 (25746, 25895)": (
        [tool("write_file", {"path": text(maxLength=4096), "content": text(maxLength=524288)}, about="Write a file.")],
        "Write the line hello world to the file notes.txt."),
    "`maxLength` 2,000, `minLength` 1 (27619)": (
        [tool("comment", {"issue": {"type": "integer"}, "body": text(minLength=1, maxLength=2000), "labels": {
            "type": "array", "items": text(minLength=1, maxLength=64), "maxItems": 100}}, about="Comment on an issue.")],
        "Comment on issue 17 that it is fixed, with the label done."),
    "58 tools (17473)": (many(58), "Show the invoice with the id inv-2024-17."),
    "597 tools": (many(597), "Show the invoice with the id inv-2024-17."),
    "lists of at most 1,000 (26596)": (
        [tool("vote", {"ids": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 65535}, "minItems": 1,
                               "maxItems": 1000}}, about="Vote for entries.")],
        "Vote for the entries 3, 14 and 15."),
    "patterns without anchors (22314)": (
        [tool("book", {"flight": text(pattern="[A-Z]{2}[0-9]{3,4}", maxLength=16), "seats": {"type": "integer", "minimum": 1}},
              about="Book a flight.")],
        "Book two seats in flight Lufthansa 1234."),
    "classes in patterns (27580)": (
        [tool("publish", {"id": text(pattern="^\\d+$"), "version": text(pattern="^\\d+\\.\\d+\\.\\d+(-[\\w.]+)?$"),
                          "slug": text(pattern="^[\\w-]+$")}, about="Publish a release.")],
        "Publish release number 42 as version 1.20 with the slug my page."),
    "escapes in patterns (19051)": (
        [tool("call", {"phone": text(pattern="^\\d{3}\\-\\d{4}$"), "mail": text(pattern="^[\\w\\.\\-]+\\@[\\w\\-]+\\.[a-z]{2,}$")},
              about="Call somebody.")],
        "Call 555 0199, mail ann at example.org."),
    "looking ahead in patterns": (
        [tool("checkout", {"branch": text(pattern="^(?!-)(?!.*\\.\\.)[A-Za-z0-9/._-]{1,40}$")}, about="Switch to a branch.")],
        "Switch to the branch named new parser."),
    "properties that are never there (14227)": (
        [tool("report", {"path": {"anyOf": [{"anyOf": [{"not": {}}, text(maxLength=40)]}, {"type": "null"}]},
                         "period": {"anyOf": [{"not": {}}, text(enum=["daily", "weekly"])]}}, ["period"], "Make a report.")],
        "Make the report of the month in month.md."),
    "variants beside properties (7703)": (
        [tool("act", {"action": {"enum": ["go", "take"]}, "place": text(maxLength=20), "thing": text(maxLength=20)}, ["action"], "Do something.",
              oneOf=[{"properties": {"action": {"const": "go"}}, "required": ["place"]},
                     {"properties": {"action": {"const": "take"}}, "required": ["thing"]}])],
        "Go to the mall."),
    "numbers with steps": (
        [tool("pay", {"euros": {"type": "number", "exclusiveMinimum": 0, "maximum": 5000},
                      "minutes": {"type": "integer", "multipleOf": 15}}, about="Pay for parking.")],
        "Pay 5 euros for parking 50 minutes."),
}


def call_schema(tools):
    """A call of one of the tools."""
    calls = [{"type": "object", "properties": {"name": {"const": t["name"]}, "arguments": t["parameters"]},
              "required": ["name", "arguments"], "additionalProperties": False} for t in tools]
    return {"anyOf": calls} if len(calls) > 1 else calls[0]
