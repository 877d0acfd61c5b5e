"""Reads the Lark notation of the grammars in this folder, and writes them in that of GRID.

GRID has rules without repetitions and options, and regular expressions over bytes. Only what these grammars use is read: no imports, templates or counted repetitions in rules.
"""

import re
import re._constants as sre
import re._parser as sre_parse

TOKEN = re.compile(
    r'"(?P<text>(?:[^"\\\n]|\\.)*)"|/(?P<regex>(?:[^/\\\n]|\\.)+)/|(?P<name>[A-Za-z_0-9]+)|(?P<sign>[()|*+?])|(?P<end>$)'
)
# A definition begins a line; continued lines are indented.
DEFINITION = re.compile(r"^(?:([A-Za-z_0-9]+)\s*:|%ignore\s)", re.M)


class Lark:
    """A grammar: rules and terminals as trees, and the ignored terminals in their order.

    A tree is ("text", s), ("regex", s), ("name", s), ("all", trees), ("any", trees) or
    ("many", tree, min, max) with max None for no bound.
    """

    def __init__(self, source):
        source = "\n".join(line for line in source.splitlines() if not line.startswith("//"))
        self.rules, self.ignored = {}, []
        found = list(DEFINITION.finditer(source))
        for definition, after in zip(found, found[1:] + [None]):
            body = source[definition.end() : after.start() if after else len(source)]
            tree = Reader(body).alternatives()
            if definition[1]:
                self.rules[definition[1]] = tree
            else:
                self.ignored.append(tree)


def is_terminal(name):
    return name[0].isupper()


class Reader:
    def __init__(self, body):
        self.body, self.at = body.strip(), 0
        self.advance()

    def advance(self):
        while self.at < len(self.body) and self.body[self.at].isspace():
            self.at += 1
        self.token = TOKEN.match(self.body, self.at)
        if not self.token:
            raise ValueError(f"unexpected text: {self.body[self.at:self.at + 30]!r}")
        self.at = self.token.end()

    def sign(self, sign):
        if self.token["sign"] != sign:
            return False
        self.advance()
        return True

    def alternatives(self):
        found = [self.sequence()]
        while self.sign("|"):
            found.append(self.sequence())
        return found[0] if len(found) == 1 else ("any", found)

    def sequence(self):
        found = []
        while self.token["end"] is None and self.token["sign"] not in ("|", ")"):
            found.append(self.repeated())
        return found[0] if len(found) == 1 else ("all", found)

    def repeated(self):
        tree = self.atom()
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.sign(sign):
                tree = ("many", tree, *bounds)
        return tree

    def atom(self):
        token = self.token
        self.advance()
        if token["sign"] == "(":
            tree = self.alternatives()
            if not self.sign(")"):
                raise ValueError("a bracket is open")
            return tree
        if token["text"] is not None:
            return ("text", re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), token["text"]))
        if token["regex"] is not None:
            return ("regex", token["regex"])
        if token["name"] is None:
            raise ValueError(f"unexpected {token[0]!r}")
        return ("name", token["name"])


def classes(items):
    """Returns the ranges of a class of `re`, and whether it is negated."""
    negated, ranges = False, []
    for kind, value in items:
        if kind is sre.NEGATE:
            negated = True
        elif kind is sre.LITERAL:
            ranges.append((value, value))
        elif kind is sre.RANGE:
            ranges.append(value)
        else:
            raise ValueError(f"{kind} in a class")
    return ranges, negated


def regex_tree(pattern):
    """Returns a regular expression as a tree whose leaves are ("text", s) and ("class", ranges, negated)."""

    def convert(items):
        found = []
        for kind, value in items:
            if kind is sre.LITERAL:
                found.append(("text", chr(value)))
            elif kind is sre.NOT_LITERAL:
                found.append(("class", [(value, value)], True))
            elif kind is sre.ANY:
                found.append(("class", [(10, 10)], True))
            elif kind is sre.IN:
                found.append(("class", *classes(value)))
            elif kind is sre.MAX_REPEAT:
                low, high, inner = value
                found.append(("many", convert(inner), low, None if high is sre.MAXREPEAT else high))
            elif kind is sre.SUBPATTERN:
                found.append(convert(value[3]))
            elif kind is sre.BRANCH:
                found.append(("any", [convert(branch) for branch in value[1]]))
            else:
                raise ValueError(f"{kind} in {pattern!r}")
        return found[0] if len(found) == 1 else ("all", found)

    return convert(sre_parse.parse(pattern))


def bytes_regex(lark, tree):
    """Returns a terminal as a regular expression over bytes. Characters beyond ASCII are any of its bytes."""

    def byte(code):
        return chr(code) if chr(code).isalnum() else f"\\x{code:02x}"

    kind = tree[0]
    if kind == "text":
        return "".join(byte(b) for b in tree[1].encode())
    if kind == "regex":
        return bytes_regex(lark, regex_tree(tree[1]))
    if kind == "class":
        ranges = [(a, min(b, 0x7F)) for a, b in tree[1] if a < 0x80]
        found = "".join(byte(a) if a == b else f"{byte(a)}-{byte(b)}" for a, b in ranges)
        beyond = r"\x80-\xff" if any(b > 0x7F for _, b in tree[1]) else ""
        return f"[^{found}]" if tree[2] else f"[{found}{beyond}]"
    if kind == "name":
        return bytes_regex(lark, lark.rules[tree[1]])
    if kind == "many":
        bounds = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(tree[2:])
        counts = bounds or f"{{{tree[2]},{'' if tree[3] is None else tree[3]}}}"
        return f"({bytes_regex(lark, tree[1])}){counts}"
    return "(" + ("|" if kind == "any" else "").join(bytes_regex(lark, part) for part in tree[1]) + ")"


def bnf(lark):
    """Returns the grammar in the notation of GRID. Options become alternatives, so no rule is empty that need not be."""
    helpers, rules, terminals, literals = {}, {}, {}, {}

    def terminal(tree):
        text = bytes_regex(lark, tree)
        return terminals.setdefault(text, f"T{len(terminals)}")

    def helper(key, alternatives):
        if key not in helpers:
            helpers[key] = f"h{len(helpers)}"
            rules[helpers[key]] = alternatives(helpers[key])
        return helpers[key]

    def expanded(tree):
        """Returns the alternatives of a tree as lists of symbols."""
        kind = tree[0]
        if kind == "text":
            # It has one name for literals that differ in the case of their letters only.
            first = literals.setdefault(tree[1].upper(), tree[1])
            plain = first == tree[1] and all(" " <= c <= "~" for c in tree[1])
            return [['"' + re.sub(r'(["\\])', r"\\\1", tree[1]) + '"' if plain else terminal(tree)]]
        if kind == "regex":
            return [[terminal(tree)]]
        if kind == "name":
            return [[tree[1].upper() if is_terminal(tree[1]) else "r_" + tree[1].lower()]]
        if kind == "any":
            return [found for part in tree[1] for found in expanded(part)]
        if kind == "all":
            found = [[]]
            for part in tree[1]:
                found = [before + more for before in found for more in expanded(part)]
            return found
        inner, low, high = tree[1:]
        if high == 1:
            return [[]] + expanded(inner)
        options = expanded(inner)
        name = helper(repr(inner), lambda own: options + [[own, *option] for option in options])
        return [[name]] + ([[]] if low == 0 else [])

    for name, tree in lark.rules.items():
        if not is_terminal(name):
            rules["r_" + name.lower()] = expanded(tree)
    used = {symbol for alternatives in rules.values() for alternative in alternatives for symbol in alternative}
    lines = ["%start r_start"]
    for number, tree in enumerate(lark.ignored):
        lines += [f"%ignore IGNORED{number}", f"IGNORED{number}: /{bytes_regex(lark, tree)}/"]
    lines += [f"{name}: /{text}/" for text, name in terminals.items()]
    lines += [f"{name.upper()}: /{bytes_regex(lark, tree)}/" for name, tree in lark.rules.items() if name.upper() in used]
    for name, alternatives in rules.items():
        # An empty alternative cannot begin a rule.
        first, *others = sorted((" ".join(alternative) for alternative in alternatives), key=lambda text: not text)
        lines += [f"{name}: {first}"] + [f"| {other}" for other in others]
    return "\n".join(lines) + "\n"
