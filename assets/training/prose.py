"""Texts written by hand, with slots, and the records they contain.

The folder `frames` holds files in this notation:

    @ kind_of_record | names of the kind | topic path
    first_key,other_key,... | value kind | description ; description
    --
    A text with {slots}.
    --
    The next text.

The first key names the slot. A line `@ kind_of_record` alone goes on with a
kind of another file; such files have names that begin with `more`. In a text
stand

    {slot}            a made value; the same one each time
    {slot:w}          the value in a certain form (see `write`)
    {slot=a|b|c}      one of these, as text and as value
    {slot=a=>x|b=>y}  text a with the value x, or text b with the value y
    {+slot}           one more member of a list; {+slot=a|b} likewise
    {~kind}           a made value that nobody asks for
    {=a|b|c}          one of these wordings
    <<slot 1-4 nl: {column} ... >>   one to four rows, joined by nl, comma, semi or dash

A text may begin with a line `! slot=value; slot=value` for what it says
without naming it. The loader refuses a slot that its kind does not have.

Value kinds are those of `values.py` and `text` (only from the text), `bool`,
`enum:a/b`, `[kind]` (a list), `rows(key/other=kind; ...)`, `m:lo:hi` (money),
`year:lo:hi`, `day` (a date without a year), `after:slot`, `before:slot`.
"""
import datetime
import functools
import glob
import math
import os
import re

import wordlists as W
from values import Val, bucket

HERE = os.path.dirname(os.path.abspath(__file__))
# Of a hundred texts so many never train and serve to measure with.
HELD_OUT = 5

# What looks like the end of a sentence and is none.
ABBREVIATION = re.compile(r"(?:^|[\s(])(?:[A-Za-z]|no|No|Mr|Mrs|Ms|Dr|St|Art|Est|Ref|ref|max|Max|approx|Inv|Nr|incl|Vol|vol|pp|Prof|hr|pl|dep|arr|Col|Jr|trans|Trans|tel|Tel|doi)\.$")
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
ORDINAL = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth", 9: "ninth", 10: "tenth", 11: "eleventh", 12: "twelfth"}
MONEY = [("$", "USD", "dollars"), ("€", "EUR", "euros"), ("£", "GBP", "pounds"), ("€", "EUR", "euro"), ("$", "USD", "dollars"), ("CHF ", "CHF", "francs"), ("kr ", "SEK", "kronor"), ("NOK ", "NOK", "kroner"), ("₹", "INR", "rupees"), ("zł ", "PLN", "zloty"), ("C$", "CAD", "Canadian dollars"), ("R ", "ZAR", "rand")]


def words(n):
    """A whole number below 1000 in words."""
    if n < 0:
        return "minus " + words(-n)
    if n < 20:
        return SMALL[n]
    if n < 100:
        return TENS[n // 10] + ("-" + SMALL[n % 10] if n % 10 else "")
    if n < 1000:
        return SMALL[n // 100] + " hundred" + (" and " + words(n % 100) if n % 100 else "")
    return str(n)


def ordinal(n):
    return f"{n}th" if 10 <= n % 100 <= 20 else f"{n}{({1: 'st', 2: 'nd', 3: 'rd'}).get(n % 10, 'th')}"


# ---------------------------------------------------------------- reading
class FrameError(Exception):
    pass


class Slot:
    """A property that texts of one kind of record may state."""

    def __init__(self, keys, kind, descs):
        self.keys, self.name, self.kind, self.descs = keys, keys[0], kind, descs
        self.labels = descs or [self.name.replace("_", " ").capitalize()]
        self.options = None
        self.item = None
        self.columns = None
        if kind.startswith("enum:"):
            self.options = kind[5:].split("/")
        elif kind.startswith("["):
            self.item = kind[1:-1]
        elif kind.startswith("rows("):
            self.columns = {}
            for c in kind[5:-1].split(";"):
                k, v = c.strip().split("=")
                keys = k.split("/")
                self.columns[keys[0]] = Slot(keys, v, [])


class Frame:
    """One text: parts per sentence, and fixed values."""

    def __init__(self, kind, text, fixed, where):
        self.kind, self.text, self.fixed, self.where = kind, text, fixed, where
        self.parts = parse_text(text, kind, where)
        self.sentences = split_sentences(self.parts)
        self.slots = sorted({p[1] for p in self.parts if p[0] in ("slot", "rows")} | set(fixed))
        self.held_out = bucket(text) < HELD_OUT


class Kind:
    def __init__(self, name, names, topic, file):
        self.name, self.names, self.topic, self.file = name, names, topic, file
        self.slots, self.frames = {}, []


def fixed_value(slot, text):
    """A value given in the frame, as JSON."""
    if text == "null":
        return None
    if slot.kind == "bool":
        if text not in ("true", "false"):
            raise FrameError(f"{slot.name}: {text!r} is neither true nor false")
        return text == "true"
    if slot.options is not None and text not in slot.options:
        raise FrameError(f"{slot.name}: {text!r} is none of {slot.options}")
    return text


def followed(kind):
    """The slot that values of this kind come after or before, or None."""
    head, _, slot = kind.partition(":")
    return slot if head in ("after", "before") else None


def alternatives(text):
    out = []
    for a in text.split("|"):
        s, arrow, v = a.partition("=>")
        out.append((s, v if arrow else s))
    return out


def parse_text(text, kind, where):
    parts, pos = [], 0
    for m in re.finditer(r"<<(.*?)>>|\{([^{}]*)\}", text, re.S):
        if m.start() > pos:
            parts.append(("lit", text[pos:m.start()]))
        pos = m.end()
        if m.group(1) is not None:
            head = re.match(r"(\w+) (\d+)-(\d+) (nl|comma|semi|dash): ?(.*)", m.group(1), re.S)
            slot = head and kind.slots.get(head.group(1))
            if not slot or not slot.columns:
                raise FrameError(f"{where}: rows {m.group(1)[:30]!r}")
            sub = []
            for p in re.split(r"(\{\w+(?::\w+)?\})", head.group(5)):
                if p.startswith("{"):
                    c, _, f = p[1:-1].partition(":")
                    if c not in slot.columns:
                        raise FrameError(f"{where}: no column {c} in {slot.name}")
                    sub.append((c, f))
                elif p:
                    sub.append((None, p))
            parts.append(("rows", slot.name, int(head.group(2)), int(head.group(3)), head.group(4), sub))
            continue
        body = m.group(2)
        if body.startswith("="):
            parts.append(("alt", body[1:].split("|")))
        elif body.startswith("~"):
            k, _, f = body[1:].partition("/")
            if followed(k) and followed(k) not in kind.slots:
                raise FrameError(f"{where}: {kind.name} has no slot {followed(k)!r}")
            parts.append(("other", k, f))
        else:
            add = body.startswith("+")
            body = body[add:]
            name, eq, alts = body.partition("=")
            name, _, form = name.partition(":")
            slot = kind.slots.get(name)
            if slot is None:
                raise FrameError(f"{where}: {kind.name} has no slot {name!r}")
            if add != (slot.item is not None):
                raise FrameError(f"{where}: {name!r} is {'a' if slot.item else 'no'} list")
            alts = alternatives(alts) if eq else None
            if alts is None and (slot.kind == "text" or slot.item == "text" or slot.kind == "bool" or slot.options):
                raise FrameError(f"{where}: {name!r} needs its wording in the text")
            for _, v in alts or []:
                if not add:
                    fixed_value(slot, v)
            parts.append(("slot", name, form, alts, add))
    if pos < len(text):
        parts.append(("lit", text[pos:]))
    return parts


def split_sentences(parts):
    """Parts per sentence. A sentence ends with its space or line break."""
    out, cur = [], []
    for p in parts:
        if p[0] != "lit":
            cur.append(p)
            continue
        pieces = re.split(r"((?<=[.!?])\s+|\n+)", p[1])
        for i, piece in enumerate(pieces):
            if i % 2:
                cur.append(("lit", piece))
                if "\n" not in piece and ABBREVIATION.search(pieces[i - 1]):
                    continue
                out.append(cur)
                cur = []
            elif piece:
                cur.append(("lit", piece))
    if cur:
        out.append(cur)
    return out


def load(folder=None):
    kinds = {}
    paths = glob.glob(os.path.join(folder or os.path.join(HERE, "frames"), "*.txt"))
    for path in sorted(paths, key=lambda p: (os.path.basename(p).startswith("more"), p)):
        name = os.path.basename(path)
        if name.startswith("_"):
            continue
        kind, text, start = None, None, 0
        lines = open(path, encoding="utf-8").read().split("\n") + ["@"]

        def finish(no):
            body = "\n".join(text).strip()
            if not body:
                return
            where = f"{name}:{start}"
            fixed = {}
            if body.startswith("!"):
                head, _, body = body.partition("\n")
                for f in head[1:].split(";"):
                    k, _, v = f.strip().partition("=")
                    if k not in kind.slots:
                        raise FrameError(f"{where}: {kind.name} has no slot {k!r}")
                    fixed[k] = fixed_value(kind.slots[k], v)
            kind.frames.append(Frame(kind, body.strip(), fixed, where))

        for no, line in enumerate(lines, 1):
            if line.startswith("@") or line.strip() == "--":
                if text is not None:
                    finish(no)
                text, start = ([], no + 1) if line.strip() == "--" else (None, no)
                if line.startswith("@ "):
                    p = [x.strip() for x in line[2:].split("|")]
                    if len(p) == 1 and p[0] in kinds:
                        kind = kinds[p[0]]
                        continue
                    if len(p) != 3 or p[0] in kinds:
                        raise FrameError(f"{name}:{no}: {line!r}")
                    kind = kinds[p[0]] = Kind(p[0], [x.strip() for x in p[1].split(",")], p[2], name)
            elif text is not None:
                text.append(line)
            elif line.strip():
                p = [x.strip() for x in line.split(" | ")]
                if len(p) not in (2, 3):
                    raise FrameError(f"{name}:{no}: {line!r}")
                s = Slot(p[0].split(","), p[1], [d.strip() for d in p[2].split(" ; ")] if len(p) == 3 else [])
                if s.name in kind.slots:
                    raise FrameError(f"{name}:{no}: twice {s.name}")
                kind.slots[s.name] = s
    for kind in kinds.values():
        for s in kind.slots.values():
            if followed(s.kind) and followed(s.kind) not in kind.slots:
                raise FrameError(f"{kind.file}: {kind.name} has no slot {followed(s.kind)!r}")
    return kinds


@functools.lru_cache(None)
def loose_parts(text, where="a text"):
    """The parts of a text of no kind: only values that nobody asks for."""
    return parse_text(text, Kind("loose", [], "", ""), where)


def load_fillers(folder=None):
    """Sentences that fit nearly everywhere, with values that nobody asks for."""
    path = os.path.join(folder or os.path.join(HERE, "frames"), "_fillers.txt")
    if not os.path.exists(path):
        return []
    return [loose_parts(l.strip(), f"_fillers.txt:{n}") for n, l in enumerate(open(path, encoding="utf-8"), 1) if l.strip() and not l.startswith("#")]


# ---------------------------------------------------------------- writing
class Made:
    """A value with the forms in which it was written."""

    __slots__ = ("kind", "data", "forms", "written")

    def __init__(self, kind, data):
        self.kind, self.data, self.forms, self.written = kind, data, {}, []


class Writer:
    """Fills the frames of one document. Dates and money keep one style."""

    def __init__(self, g):
        self.g, self.r, self.m = g, g.r, g.m
        r = self.r
        self.year = r.randint(2016, 2027)
        self.sym = r.choice(MONEY)
        self.money_style = r.choices(["front", "word", "code", "codefront", "back", "bare"], [46, 22, 12, 6, 8, 6])[0]
        self.comma = self.money_style in ("back", "code") and r.random() < 0.35
        self.date_style = r.choices(["iso", "mdy", "dmy", "dmy_short", "dot", "slash", "th", "thof", "wd", "wd2", "the", "mdyth"], [9, 15, 22, 5, 6, 5, 8, 7, 6, 5, 7, 5])[0]
        self.made, self.lists, self.fixed, self.rows = {}, {}, {}, {}

    # -- made values
    def day(self, lo=None, hi=None):
        r = self.r
        if lo is None and hi is None:
            return datetime.date(self.year, 1, 1) + datetime.timedelta(r.randint(0, 364))
        if lo:
            return lo + datetime.timedelta(r.choice([1, 1, 2, 3, 5, 7, 10, 14, 14, 21, 28, 30, 45, 60, 90, r.randint(1, 300)]))
        return hi - datetime.timedelta(r.choice([1, 2, 3, 6, 7, 12, 14, 20, 30, 60, r.randint(1, 300)]))

    def date_of(self, name, slots):
        """The date of another slot of the same document."""
        if name not in self.made:
            self.made[name] = self.make(slots[name].kind, slots)
        d = self.made[name].data
        return d if isinstance(d, datetime.date) else self.day()

    def make(self, kind, slots=None):
        r = self.r
        head, _, rest = kind.partition(":")
        if head == "date" and not rest or head == "day":
            return Made(head, self.day())
        if head in ("after", "before"):
            other = self.date_of(rest, slots)
            return Made("date", self.day(other, None) if head == "after" else self.day(None, other))
        if head == "dob":
            return Made("date", datetime.date(r.randint(1925, 2016), 1, 1) + datetime.timedelta(r.randint(0, 364)))
        if head == "date":
            lo, hi = map(int, rest.split(":"))
            return Made("date", datetime.date(r.randint(lo, hi), 1, 1) + datetime.timedelta(r.randint(0, 364)))
        if head == "m":
            lo, hi = map(float, rest.split(":"))
            a = math.exp(r.uniform(math.log(lo), math.log(hi)))
            cents = r.random() < (0.55 if a < 200 else 0.3 if a < 3000 else 0.12)
            if cents:
                return Made("money", (int(a), r.choice(["00", "50", "99", "95", "25", "75", "90", "40", f"{r.randint(0, 99):02}", f"{r.randint(0, 99):02}", f"{r.randint(0, 99):02}"])))
            n = max(1, int(a))
            step = 1 if n < 30 else 5 if n < 300 else 10 if n < 2000 else 50 if n < 20000 else 500 if n < 200000 else 5000
            return Made("money", ((max(step, n // step * step) if r.random() < 0.75 else n), None))
        if head == "int":
            lo, hi = map(int, rest.split(":"))
            n = int(math.exp(r.uniform(math.log(max(lo, 1)), math.log(hi + 0.99)))) if hi > 300 and lo >= 0 else r.randint(lo, hi)
            return Made("int", n)
        if head == "year":
            return Made("year", r.randint(*map(int, rest.split(":"))))
        if head == "num":
            lo, hi, dec = rest.split(":")[:3]
            return Made("num", f"{r.uniform(float(lo), float(hi)):.{int(dec)}f}")
        if head == "person":
            return Made("person", (self.m.first(), self.m.last()))
        v = self.m.pick_w(rest) if head == "pick_w" else self.m.make(kind)
        return Made("val", Val(v) if isinstance(v, str) else v)

    # -- forms
    def date_text(self, d, form):
        """Forms: (none) the style of the document; y without a year; w with the weekday."""
        r, mon = self.r, W.MONTH[d.month - 1]
        wd = W.WEEKDAY[d.weekday()]
        if form == "w":
            return f"{wd}, {d.day} {mon} {d.year}" if r.random() < .6 else f"{wd} {d.day} {mon} {d.year}"
        if form == "y":
            return r.choice([f"{d.day} {mon}", f"{mon} {d.day}", f"{ordinal(d.day)} {mon}", f"{ordinal(d.day)} of {mon}", f"the {ordinal(d.day)} of {mon}", f"{d.day} {mon[:3]}", f"{d.day:02}.{d.month:02}.", f"{wd} {ordinal(d.day)} {mon}", f"{wd} the {ordinal(d.day)}"])
        s = self.date_style
        if form == "p" and s == "the":
            s = "dmy"
        return {
            "iso": f"{d.year}-{d.month:02}-{d.day:02}", "mdy": f"{mon} {d.day}, {d.year}", "dmy": f"{d.day} {mon} {d.year}",
            "dmy_short": f"{d.day} {mon[:3]} {d.year}", "dot": f"{d.day:02}.{d.month:02}.{d.year}", "slash": f"{d.day:02}/{d.month:02}/{d.year}",
            "th": f"{ordinal(d.day)} {mon} {d.year}", "thof": f"{ordinal(d.day)} of {mon} {d.year}", "wd": f"{wd}, {d.day} {mon} {d.year}",
            "wd2": f"{wd} {d.day} {mon} {d.year}", "the": f"the {ordinal(d.day)} of {mon} {d.year}", "mdyth": f"{mon} {ordinal(d.day)}, {d.year}",
        }[s]

    def money_text(self, data, form):
        whole, dec = data
        r = self.r
        if form == "k" and whole >= 1000 and whole % 1000 == 0:
            return f"{whole // 1000}k"
        if form == "w" and dec is None and whole < 1000:
            return f"{words(whole)} {self.sym[2]}"
        comma = self.comma and form != "n"
        num = str(whole)
        if whole > 999 and r.random() < 0.8:
            num = f"{whole:,}"
            if comma:
                num = num.replace(",", ".")
        if dec:
            num += ("," if comma else ".") + dec
        if form == "n":
            return num
        sym, code, word = self.sym
        style = self.money_style
        if form == "b":
            style = "word" if style == "bare" else style
        return {"front": sym + num, "word": f"{num} {word}", "code": f"{num} {code}", "codefront": f"{code} {num}", "back": f"{num} {sym.strip()}", "bare": num}[style]

    def write(self, v, form=""):
        """Forms: w words, W with a capital, n figures only, o ordinal, f first name, l last name, i initial, y and w of dates, u upper case."""
        if form in v.forms:
            return v.forms[form]
        r, k = self.r, v.kind
        if k in ("date", "day"):
            s = self.date_text(v.data, "y" if k == "day" else form)
        elif k == "money":
            s = self.money_text(v.data, form)
        elif k in ("int", "year"):
            n = v.data
            if form in ("w", "W"):
                s = words(n)
                s = s.capitalize() if form == "W" else s
            elif form == "o":
                s = ORDINAL[n] if n in ORDINAL and r.random() < .6 else ordinal(n)
            elif k == "year" or abs(n) < 1000 or form == "n":
                s = words(n) if k == "int" and 0 < n <= 12 and not form and r.random() < .12 else str(n)
            else:
                s = r.choices([f"{n:,}", str(n), f"{n:,}".replace(",", " ")], [62, 33, 5])[0]
        elif k == "num":
            s = v.data.rstrip("0").rstrip(".") if form == "t" else v.data
        elif k == "person":
            f, l = v.data
            s = {"f": f, "l": l, "i": f"{f[0]}. {l}", "r": f"{l}, {f}", "s": f"{f} {l[0]}."}.get(form, f"{f} {l}")
        else:
            s = v.data.s
            if form == "v":
                s = v.data.v
        if form == "u":
            s = s.upper()
        v.forms[form] = s
        v.written.append((form, s))
        return s

    def gold(self, v):
        """The value as the schema builder wants it. Strings are as written."""
        forms = dict(v.written)
        s = forms.get("", v.written[0][1])
        k = v.kind
        if k == "date":
            return Val(s, kind="date", x=v.data.isoformat())
        if k == "day":
            return Val(s)
        if k == "money":
            whole, dec = v.data
            cur = self.sym[1] if any(f != "n" and f != "k" for f in forms) and (self.money_style != "bare" or "b" in forms) else None
            return Val(s, kind="money", x=(str(whole) + (f".{dec}" if dec else ""), cur))
        if k in ("int", "year"):
            return Val(s, kind="int", x=str(v.data))
        if k == "num":
            return Val(s, kind="num", x=v.data.rstrip("0").rstrip(".") if "" not in forms and "t" in forms else v.data)
        if k == "person":
            for f in ("", "r", "i", "s", "l", "f"):
                if f in forms:
                    return Val(forms[f], kind="person" if f == "" else "str", x=v.data)
            return Val(s)
        d = v.data
        return Val(s, d.v if s == d.s else s, d.kind, d.x)

    # -- parts
    def fill(self, parts, slots):
        """The text of parts. Values are noted in `made`, `lists`, `fixed` and `rows`."""
        r, out = self.r, []
        for p in parts:
            if p[0] == "lit":
                out.append(p[1])
            elif p[0] == "alt":
                out.append(r.choice(p[1]))
            elif p[0] == "other":
                out.append(self.write(self.make(p[1], slots), p[2]))
            elif p[0] == "rows":
                out.append(self.fill_rows(p, slots[p[1]]))
            else:
                _, name, form, alts, add = p
                slot = slots[name]
                if alts:
                    s, v = r.choice(alts)
                    out.append(s)
                    if add:
                        self.lists.setdefault(name, []).append(v)
                    else:
                        self.fixed[name] = (fixed_value(slot, v), s)
                elif add:
                    v = self.make(slot.item, slots)
                    s = self.write(v, form)
                    out.append(s)
                    self.lists.setdefault(name, []).append(self.gold(v).v)
                else:
                    if name not in self.made:
                        self.made[name] = self.make(slot.kind, slots)
                    out.append(self.write(self.made[name], form))
        return "".join(out)

    def fill_rows(self, p, slot):
        r, rows, lines = self.r, [], []
        for _ in range(r.randint(p[2], p[3])):
            row, s = {}, ""
            for c, f in p[5]:
                if c is None:
                    s += f
                else:
                    if c not in row:
                        row[c] = self.make(slot.columns[c].kind)
                    s += self.write(row[c], f)
            rows.append({c: self.gold(v) for c, v in row.items()})
            lines.append(s)
        self.rows[slot.name] = rows
        return {"nl": "\n", "comma": ", ", "semi": "; ", "dash": "\n- "}[p[4]].join(lines)

    def value(self, slot, name):
        """The Val of a slot that the text states, or None."""
        if name in self.made and self.made[name].written:
            return self.gold(self.made[name])
        if name in self.lists:
            return Val(", ".join(self.lists[name]), kind="list", x=list(self.lists[name]))
        if name in self.fixed:
            v, s = self.fixed[name]
            return typed_fixed(slot, v, s)
        return None


def typed_fixed(slot, v, s):
    """The Val of a value that the frame gives."""
    head = slot.kind.split(":")[0]
    if v is None:
        return None
    if slot.kind == "bool":
        return Val(s, kind="bool", x=v)
    if slot.options:
        return Val(s, kind="enum", x=(v, slot.options))
    if head in ("int", "year"):
        return Val(s, kind="int", x=v)
    if head == "num":
        return Val(s, kind="num", x=v)
    if head == "m":
        return Val(s, kind="money", x=(v, None))
    if head in ("date", "after", "before", "dob") and re.fullmatch(r"\d{4}-\d\d-\d\d", v):
        return Val(s, kind="date", x=v)
    return Val(v)


# ---------------------------------------------------------------- labels
def load_labels(folder=None):
    """Label sets of all files _labels*.txt: {set: {(name, other names): [texts]}}.

    A text may hold values as a filler does, and line breaks as \\n.
    """
    sets = {}
    for path in sorted(glob.glob(os.path.join(folder or os.path.join(HERE, "frames"), "_labels*.txt"))):
        cur, texts = None, None
        for n, line in enumerate(open(path, encoding="utf-8"), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("@ "):
                cur, texts = sets.setdefault(line[2:], {}), None
            elif line.startswith("+ ") and cur is not None:
                texts = cur.setdefault(tuple(x.strip() for x in line[2:].split(",")), [])
            elif texts is None:
                raise FrameError(f"{os.path.basename(path)}:{n}: a text before its label")
            else:
                texts.append(line.replace("\\n", "\n"))
    return sets
