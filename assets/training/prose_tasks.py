"""Documents from the texts written by hand: records, lists, labels.

The texts are in `frames`, their notation is in `prose.py`. Here a text is
filled, changed a little (sentences left out or brought in, typing errors),
and asked about.
"""
import re

import classify
import prose
from prose import Writer, loose_parts
from values import Raw, Val, dumps

KINDS = prose.load()
LABELS = prose.load_labels()
FILLERS = prose.load_fillers()
# Sets that people use most, and that have most texts, come up more often.
USUAL_SETS = [s for s, n in dict(subject=14, intent=8, sentiment=8, record_type=6, office_mail=40, emotion=3, urgency=3, spam=3, topic=2).items() for _ in range(n)]


def frames(kind, heldout):
    return [f for f in kind.frames if f.held_out == heldout]


TRAIN = {k.name: frames(k, False) for k in KINDS.values()}
HELD = {k.name: frames(k, True) for k in KINDS.values()}
HELD_FRAMES = [f for fs in HELD.values() for f in fs]
ALL_TRAIN = [f for fs in TRAIN.values() for f in fs]


def pick_frame(g):
    """A frame: every kind equally often, in a kind every text."""
    if g.split == "heldout":
        return g.r.choice(HELD_FRAMES)
    return g.r.choice(TRAIN[g.r.choice(list(TRAIN))])


# ---------------------------------------------------------------- changes
def mistype(r, text):
    """One typing error in a word of the frame."""
    words = [m for m in re.finditer(r"[a-z]{4,}", text)]
    if not words:
        return text
    m = r.choice(words)
    w, i = m.group(), r.randrange(1, len(m.group()) - 1)
    w = r.choice([w[:i] + w[i + 1:], w[:i] + w[i] + w[i:], w[:i] + w[i + 1] + w[i] + w[i + 2:]])
    return text[:m.start()] + w + text[m.end():]


def carelessly(r, parts):
    """The parts as somebody in a hurry types them. Values stay as they are."""
    how = r.choice(["lower", "apostrophes", "errors", "errors", "commas", "all"])
    out = []
    for p in parts:
        if p[0] == "lit":
            s = p[1]
            if how in ("lower", "all"):
                s = s.lower()
            if how in ("apostrophes", "all"):
                s = s.replace("'", "")
            if how in ("commas", "all"):
                s = s.replace(", ", " ")
            if how in ("errors", "all") and r.random() < 0.5:
                s = mistype(r, s)
            p = ("lit", s)
        out.append(p)
    return out


def names_in(parts):
    return {p[1] for p in parts if p[0] in ("slot", "rows")}


def some_left_out(r, frame):
    """The sentences without one or two of them, where enough is left."""
    sentences = list(frame.sentences)
    if len(sentences) < 3:
        return sentences
    for _ in range(r.choice([1, 1, 2])):
        i = r.randrange(len(sentences))
        rest = sentences[:i] + sentences[i + 1:]
        if len(names_in([p for s in rest for p in s])) >= 2:
            sentences = rest
    return sentences


def guest_sentence(g, kind):
    """A sentence of another kind of record whose keys this kind does not use."""
    r = g.r
    own = {k for s in kind.slots.values() for k in s.keys}
    for _ in range(6):
        f = r.choice(ALL_TRAIN)
        s = r.choice(f.sentences)
        names = names_in(s)
        if f.kind is kind or not names or len(names) > 3:
            continue
        if any(p[0] == "rows" for p in s) or sum(len(p[1]) for p in s if p[0] == "lit") < 12:
            continue
        slots = {n: f.kind.slots[n] for n in sorted(names)}  # the same in every run
        # A date that follows another one needs that one's slot.
        if any(prose.followed(x.kind) for x in slots.values()):
            continue
        if {prose.followed(p[1]) for p in s if p[0] == "other"} - names - {None}:
            continue
        if not own & {k for x in slots.values() for k in x.keys}:
            return s, slots
    return None, {}


def spaced(text, more, before):
    """Two pieces of text with white space between them."""
    a, b = (more, text) if before else (text, more)
    if not a or not b:
        return a or b
    return a + (" " if "\n" not in text and a[-1] in ".!?" else "\n") + b


# ---------------------------------------------------------------- text
def write_text(g, frame, whole=False):
    """(text, writer, slots): the filled text and what it states."""
    r, w = g.r, Writer(g)
    slots = dict(frame.kind.slots)
    sentences = frame.sentences if whole or r.random() < 0.68 else some_left_out(r, frame)
    dropped = len(sentences) < len(frame.sentences)
    parts = [p for s in sentences for p in s]
    if r.random() < 0.09:
        parts = carelessly(r, parts)
    text = w.fill(parts, slots).strip()
    if not dropped:
        for name, v in frame.fixed.items():
            w.fixed.setdefault(name, (v, str(v)))
    guests = {}
    if not whole and r.random() < 0.2:
        parts, guests = guest_sentence(g, frame.kind)
        if parts:
            slots.update(guests)
            text = spaced(text, g.cap(w.fill(parts, slots).strip()), r.random() < 0.25)
    if not whole and FILLERS and r.random() < 0.3:
        for parts in r.sample(FILLERS, min(len(FILLERS), r.choice([1, 1, 1, 2, 2, 5]))):
            filler = Writer(g).fill(parts, {})
            text = spaced(text, filler, r.random() < 0.35)
    if not whole and r.random() < 0.05:  # a longer document: something else above or below
        other = r.choice(ALL_TRAIN)
        other = Writer(g).fill(other.parts, other.kind.slots).strip()
        line = r.choice(["\n\n", "\n---\n", "\n\n> ", "\n\nForwarded message:\n", "\n\n* * *\n\n"])
        text = text + line + other
    return text, w, slots


class Item:
    """What `Gen.build` wants to know of a property."""

    __slots__ = ("attr", "val", "key", "clause")

    def __init__(self, attr, val):
        self.attr, self.val, self.key, self.clause = attr, val, None, None


def example(g, slot, slots):
    """Some value of a slot, for the type of a property that the text lacks."""
    w = Writer(g)
    if slot.kind == "bool":
        return Val("", kind="bool", x=True)
    if slot.options:
        return Val(slot.options[0], kind="enum", x=(slot.options[0], slot.options))
    if slot.item:
        return Val("x", kind="list", x=["x"])
    if slot.kind == "text":
        return Val("x")
    v = w.make(slot.kind, slots)
    w.write(v)
    return w.gold(v)


def column_type(val):
    """Schema and JSON value of a cell."""
    if val.kind == "money":
        return {"type": "number"}, Raw(val.x[0])
    if val.kind == "int":
        return {"type": "integer"}, Raw(val.x)
    if val.kind == "num":
        return {"type": "number"}, Raw(val.x)
    if val.kind == "date":
        return {"type": "string", "format": "date"}, val.x
    if val.kind == "bool":
        return {"type": "boolean"}, val.x
    if val.kind == "enum":
        return {"type": "string", "enum": val.x[1]}, val.x[0]
    if val.kind == "list":
        return {"type": "array", "items": {"type": "string"}}, list(val.x)
    return {"type": "string"}, val.v


def rows_property(g, slot, rows):
    """(key, schema, gold) of a list of rows."""
    r, style = g.r, g.pick_style()
    columns = list(rows[0])
    columns = r.sample(columns, r.randint(min(2, len(columns)), len(columns)))
    props, gold = {}, [{} for _ in rows]
    for c in columns:
        key = g.key_for(slot.columns[c], style)
        for row, out in zip(rows, gold):
            props[key], out[key] = column_type(row[c])
    item = {"type": "object", "properties": props}
    if g.chance(0.7):
        item["required"] = list(props)
    return g.key_for(slot, style), {"type": "array", "items": item}, gold


CURRENCY = prose.Slot(["currency", "currency_code", "currency", "money_unit"], "text", ["currency of the amount", "currency code"])


def currency(g, present):
    """The currency of a sum in the text as a property of its own, or None."""
    codes = {it.val.x[1] for it in present if it.val.kind == "money" and it.val.x[1]}
    if len(codes) != 1 or not g.chance(0.3):
        return None
    code = codes.pop()
    if g.chance(0.5):
        return Item(CURRENCY, Val(code))
    known = sorted({code, *g.r.sample(["USD", "EUR", "GBP", "CHF", "SEK", "PLN", "INR"], g.r.randint(2, 4))})
    return Item(CURRENCY, Val(code, kind="enum", x=(code, known)))


class Named:
    def __init__(self, name):
        self.name = name


def record(g):
    """A record of one text."""
    r = g.r
    frame = pick_frame(g)
    text, w, slots = write_text(g, frame)
    present, absent = [], []
    for name, slot in slots.items():
        v = w.value(slot, name) if not slot.columns else None
        if v is not None:
            present.append(Item(slot, v))
        elif not slot.columns and name not in w.fixed and name in frame.kind.slots:
            absent.append(slot)
    n = len(present) if g.chance(0.4) else min(len(present), r.choice([1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9]))
    present = r.sample(present, n)
    unit = currency(g, present)
    if g.chance(0.4):  # the order of the text's kind
        order = list(slots)
        present.sort(key=lambda it: order.index(it.attr.name))
    if unit:
        present.insert(r.randint(0, len(present)), unit)
    missing = []
    if absent and g.chance(0.22):
        # What only the sense of a text could tell is asked for more rarely.
        absent = [s for s in absent if not (s.kind == "bool" or s.options) or g.chance(0.25)]
        missing = [Item(s, example(g, s, slots)) for s in r.sample(absent, min(len(absent), r.choice([1, 1, 2])))]
    extra = None
    if w.rows and (g.chance(0.8) or not present):
        name, rows = r.choice(list(w.rows.items()))
        extra = rows_property(g, slots[name], rows)
    if not present and not extra:
        return record(g)
    schema, gold = g.build(present, missing, Named(frame.kind.name), extra)
    if not schema["properties"]:
        return record(g)
    return dict(task="record", prompt=g.prompt(text, schema), answer=dumps(gold), text=text, schema=schema, gold=gold, frame=frame.where)


def array(g):
    """Two or three short texts of one kind, as a list of records."""
    r = g.r
    for _ in range(20):
        kind = r.choice(list(KINDS.values()))
        pool = sorted(frames(kind, False), key=lambda f: len(f.text))[:6]
        chosen = r.sample(pool, min(len(pool), r.choice([2, 2, 3])))
        texts, values = [], []
        for f in chosen:
            t, w, slots = write_text(g, f, whole=True)
            texts.append(t)
            values.append({n: w.value(s, n) for n, s in slots.items() if not s.columns})
        shared = [n for n in kind.slots if all(v.get(n) is not None for v in values)]
        # A property must have one type in all records.
        shared = [n for n in shared if len({column_type(v[n])[0]["type"] for v in values}) == 1]
        if len(shared) >= 2:
            break
    else:
        return record(g)
    style = g.pick_style()
    props, gold = {}, [{} for _ in values]
    for n in r.sample(shared, min(len(shared), r.choice([2, 3, 3, 4]))):
        key = g.key_for(kind.slots[n], style)
        if key in props:
            continue
        for v, out in zip(values, gold):
            props[key], out[key] = column_type(v[n])
    item = {"type": "object", "properties": props}
    if g.chance(0.7):
        item["required"] = list(props)
    x = r.random()
    text = "\n\n".join(texts) if x < .5 else "\n---\n".join(texts) if x < .75 else "\n".join(f"{i}) {t}" for i, t in enumerate(texts, 1))
    key = r.choice(["records", "items", "entries", "results", kind.name + "s"])
    if g.chance(0.5):
        schema, out = {"type": "array", "items": item}, gold
    else:
        schema, out = g.object_schema({key: {"type": "array", "items": item}}, [key]), {key: gold}
    return dict(task="array", prompt=g.prompt(text, schema), answer=dumps(out), text=text, schema=schema, gold=out)


# ---------------------------------------------------------------- labels
def label_name(r):
    """Which of a label's names a document uses."""
    form = r.choice([0, 0, 0, 1, 1, 2, 3])
    return lambda n: n[min(form, len(n) - 1)]


def label_text(g, text):
    """A text of a label set with its values made."""
    return Writer(g).fill(loose_parts(text), {})


def many_labels(g):
    """Several texts of one set, a label for each: more answers for the same prompt."""
    r = g.r
    labels = LABELS[r.choice(list(LABELS) + USUAL_SETS)]
    name = label_name(r)
    some = r.sample(list(labels), min(len(labels), r.randint(2, 9)))
    shown = classify.style(g, list(dict.fromkeys(map(name, some))))
    as_shown = dict(zip(dict.fromkeys(map(name, some)), shown))
    golds = [r.choice(some) for _ in range(r.randint(4, 10))]
    texts = [label_text(g, r.choice(labels[n])).replace("\n", " ") for n in golds]
    answer = "\n".join(f"{i}. {as_shown[name(n)]}" for i, n in enumerate(golds, 1))
    listed = "\n".join(f"{i}. {t}" for i, t in enumerate(texts, 1))
    user = f"{r.choice(classify.ASK_MANY).format(l=', '.join(shown))}\n\n{listed}"
    return dict(task="classify", prompt=g.chat(r.choice(classify.SYSTEM), user), answer=answer, text=listed, labels=shown, gold=answer)


def label(g):
    """A text with one label or several of a set."""
    if g.labels and g.chance(0.4):
        return many_labels(g)
    r, x = g.r, g.r.random()
    if x < 0.65:
        labels = LABELS[r.choice(list(LABELS) + USUAL_SETS)]
        names = list(labels)
        gold = r.choice(names)
        others = r.sample([n for n in names if n != gold], min(len(names) - 1, r.choice([1, 2, 2, 3, 4, 5, 7])))
        name = label_name(r)
        if " > " in gold[0] and g.chance(0.25):  # the top of the path
            name = lambda n: n[0].split(" > ")[0]
        wording = r.choice(labels[gold])
        text, answer, multi = label_text(g, wording), [name(gold)], False
        if g.chance(0.2) and len(labels[gold]) > 1:
            text = spaced(text, label_text(g, r.choice([t for t in labels[gold] if t != wording])), False)
        if others and name(others[0]) != name(gold) and g.chance(0.12):
            text, multi = spaced(text, label_text(g, r.choice(labels[others[0]])), False), True
            answer.append(name(others[0]))
        if g.chance(0.12):
            text = spaced(text, Writer(g).fill(r.choice(FILLERS), {}), g.chance(0.5))
        if g.chance(0.1):
            text = text.lower()
        return classify.finish(g, text, list(dict.fromkeys([name(gold)] + [name(n) for n in others])), answer, multi)
    frame = pick_frame(g)
    text, _, _ = write_text(g, frame)
    kind = frame.kind
    others = r.sample([k for k in KINDS.values() if k is not kind], r.choice([1, 2, 3, 4, 5, 7]))
    how = r.random()
    if how < 0.4:  # the name of the kind, as in a program
        gold, rest = kind.name, [k.name for k in others]
    elif how < 0.75:  # its name in words
        gold, rest = r.choice(kind.names), [r.choice(k.names) for k in others]
    elif how < 0.9:  # a path
        gold, rest = kind.topic, [k.topic for k in others]
    else:  # the top of the path
        gold, rest = kind.topic.split(" > ")[0], [k.topic.split(" > ")[0] for k in others]
    labels = list(dict.fromkeys([gold] + [x for x in rest if x != gold]))
    if len(labels) < 2:
        labels.append("other")
    return classify.finish(g, text, labels, [gold])
