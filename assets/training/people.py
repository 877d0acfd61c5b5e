"""Texts that name several people, and the list of them: mail threads, minutes, notes.

Who has which address and number is spread over the text: in headings, in
signatures, in sentences. Some people are only mentioned. With a wording that
asks for it, one sentence about the people comes before the JSON.
"""
import re

from prose_tasks import label_text as filled
from values import dumps

CALLS = ["Call me on {p}.", "My number is {p}.", "If nobody is there, ring me: {p}.", "You can reach me on {p}, also in the evening.", "I'm on {p} all day.", "Phone: {p}", "My new number, by the way: {p}", "Text me at {p} if you are late.", "Just ring {p} and ask for me.", "In urgent cases I pick up at {p}.", "tel. {p}", "Best to try {p}, that's my mobile."]
OTHERS_CALL = ["{n}'s number is {p}.", "You get {n} on {p}.", "{n} can be reached at {p}.", "Please ring {n}, {p}.", "For the keys ask {n} ({p}).", "{n}, {p}, knows more.", "If it's about money, talk to {n}: {p}."]
OTHERS_MAIL = ["Please write to {n}, {e}, about that.", "{n} ({e}) gets a copy.", "The list is with {n}, {e}.", "Send the rest to {n}: {e}.", "{e} is the address of {n}.", "{n} reads mail at {e} only."]
MENTIONS = ["{n} will let you in.", "I'll bring {n} along.", "{n} told me about it.", "Ask {n}, who was there.", "{n} has the papers.", "Please tell {n} too.", "That was the idea of {n}.", "{n} is on holiday until {~day}.", "Say hello to {n} from me.", "Both {n} and I would be glad.", "I still have to ask {n}.", "{n} takes the measurements, I do the rest.", "It was {n} who found the mistake.", "Send a copy to {n} as well."]
BODY = ["The parts have come in.", "Could we meet on {~weekday}?", "{~weekday} suits me.", "We start at {~time}.", "I've attached the plan.", "The offer is {~m:50:900}, as agreed.", "Thanks for the quick reply.", "Let's do it like last time.", "Please bring {~int:2:20} of the small ones.", "The room is free from {~time}.", "It will take {~int:2:9} days.", "I'd rather wait until {~day}.", "The van can't get through the yard.", "Your parcel went off on {~day}.", "Can you send me the figures?", "Nothing new here.", "That's fine with me.", "What shall we do about the rest?", "The landlord agrees.", "I need the drawing by {~day}.", "We've moved to {~city}.", "Sorry, I mixed up the dates.", "All done, the bill follows.", "Is the old machine still running?"]
SUBJECTS = ["Friday", "the roof", "your order", "keys", "Meeting on {~day}", "Offer {~code:A}", "the new shelves", "boat trip", "Tickets", "concert in {~city}", "holiday rota", "garden party", "measurements", "Broken window", "choir", "spare parts", "the van", "next steps", "paint", "wood for the stairs"]
GREETINGS = ["Hi {f},", "Hello {f},", "Dear {f},", "{f},", "Good morning {f},", "", "Dear {n},", "hey {f},"]
ENDINGS = ["Best", "Regards", "Cheers", "Thanks", "Kind regards", "", "", "See you", "Yours"]

KEYS = [["name", "full_name", "person", "name"], ["email", "email_address", "mail", "e_mail"], ["phone", "phone_number", "telephone", "mobile"]]
NOUNS = ["people", "people", "contacts", "persons", "participants", "members", "attendees"]
# Ways to ask for a sentence before the JSON.
SENTENCE_FIRST = ["First write one sentence about who takes part, then an empty line, then the JSON.", "Begin with one sentence that names the people. Leave a line empty. Then give the JSON.", "Before the JSON, say in a sentence who is involved, and put an empty line after it.", "Start with a short sentence on the people in the text, an empty line, and the JSON.", "Say who appears in the text in one sentence, then the JSON after an empty line.", "First one sentence: who is it about? Then an empty line and the JSON."]


class Person:
    def __init__(self, g, domain):
        r = g.r
        self.first, self.last = g.m.first(), g.m.last()
        self.name = f"{self.first} {self.last}"
        plain = [s.lower().replace(" ", "").replace("'", "").encode("ascii", "ignore").decode() or "x" for s in (self.first, self.last)]
        own = domain if g.chance(0.45) else g.m.domain().encode("ascii", "ignore").decode()
        user = r.choice([f"{plain[0]}.{plain[1]}", plain[0], f"{plain[0]}.{plain[1]}", f"{plain[0][0]}.{plain[1]}", f"{plain[1]}"])
        self.address = f"{user}@{plain[1]}.{r.choice(['example', 'com', 'net', 'org'])}" if g.chance(0.15) else f"{user}@{own}"
        self.number = g.m.phone().s

    def stated(self, text):
        """Name, address and number, as far as a text has them."""
        return self.name, *(x if x in text else None for x in (self.address, self.number))


def said(g, wordings, **values):
    """One of some wordings with its values."""
    t = filled(g, re.sub(r"\{(\w)\}", r"<\1>", g.r.choice(wordings)))  # what is not ours stays
    for k, v in values.items():
        t = t.replace(f"<{k}>", v)
    return t


def signature(g, p):
    x = g.r.random()
    if x < 0.35:
        return p.name
    if x < 0.5:
        return p.first
    if x < 0.65:
        return f"{p.name}, {p.number}"
    if x < 0.75:
        return f"{p.name}\n{p.number}"
    if x < 0.85:
        return f"{p.name}\n{g.r.choice(['Tel. ', 'Phone: ', 'T ', 'mobile '])}{p.number}\n{p.address}"
    if x < 0.93:
        return f"{p.name} | {p.address} | {p.number}"
    return f"-- \n{p.name}\n{g.m.company_name()}\n{p.number}"


def thread(g, people):
    """Mails between two of the people. The others are mentioned."""
    r = g.r
    a, b, *others = people
    n = r.choice([1, 1, 2, 2, 2, 3])
    brackets = g.chance(0.8)
    blocks = []
    for i in range(n):
        frm, to = (a, b) if i % 2 == 0 else (b, a)
        show = lambda p: f"{p.name} <{p.address}>" if brackets else p.name if g.chance(0.4) else f"{p.name} ({p.address})"
        head = [f"From: {show(frm)}", f"To: {show(to)}"]
        if g.chance(0.1):
            head.insert(r.randint(0, 2), f"Date: {filled(g, '{~date}')}")
        if i == 0 and g.chance(0.8):
            head.append("Subject: " + said(g, SUBJECTS))
        body = [said(g, BODY) for _ in range(r.choice([1, 1, 2, 2, 3]))]
        if g.chance(0.35):
            body.insert(r.randint(0, len(body)), said(g, CALLS, p=frm.number))
        # Those who are left over are mentioned in the last mail.
        for p in others[i::n]:
            body.insert(r.randint(0, len(body)), mention(g, p))
        greeting, ending = said(g, GREETINGS, f=to.first, n=to.name), r.choice(ENDINGS)
        lines = [greeting, r.choice([" ", "\n", " "]).join(body), ending, signature(g, frm)]
        blocks.append("\n".join(head) + r.choice(["\n\n", "\n\n", "\n"]) + "\n".join(x for x in lines if x))
    return r.choice(["\n\n", "\n\n", "\n\n---\n\n"]).join(blocks)


def mention(g, p):
    x = g.r.random()
    if x < 0.55:
        return said(g, MENTIONS, n=p.name)
    if x < 0.75:
        return said(g, OTHERS_CALL, n=p.name, p=p.number)
    return said(g, OTHERS_MAIL, n=p.name, e=p.address)


def minutes(g, people):
    """Who was there, and what was said."""
    r = g.r
    lines = [said(g, ["Minutes, {~date}", "Meeting in {~city}", "Notes from {~weekday}", "Committee, {~day}", "Round table"])]
    n = max(1, len(people) - r.choice([0, 1]))
    there, absent = people[:n], people[n:]
    show = lambda p: r.choice([p.name, p.name, f"{p.name} ({p.address if g.chance(0.5) else p.number})"])
    lines.append(r.choice(["Present: ", "There: ", "Attendees: ", "With "]) + ", ".join(show(p) for p in there))
    if absent:
        lines.append(r.choice(["Excused: ", "Not there: ", "Apologies: "]) + ", ".join(show(p) for p in absent))
    lines += [said(g, BODY) for _ in range(r.choice([1, 2]))]
    if g.chance(0.5):
        lines.append(mention(g, r.choice(people)))
    return "\n".join(lines)


def note(g, people):
    """Sentences, one about each."""
    r = g.r
    out = []
    for p in people:
        out.append(mention(g, p))
        if g.chance(0.4):
            out.append(said(g, BODY))
    return r.choice([" ", " ", "\n"]).join(out)


def addresses(g, people):
    """A list as an address book has it."""
    r = g.r
    sep, order = r.choice([", ", " - ", "; ", " | ", "\t"]), r.sample([0, 1], 2)
    lines = []
    for p in people:
        more = [p.address if i == 0 else p.number for i in order if g.chance(0.7)]
        lines.append(sep.join([p.name, *more]))
    return (said(g, ["Who does what:", "Our helpers", "Contacts", "List of {~day}", "On duty:"]) + "\n" if g.chance(0.6) else "") + "\n".join(lines)


def joined(names):
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def sentence(g, kind, people):
    """The sentence about who takes part."""
    names = [p.name for p in people]
    if kind is thread:
        s = g.r.choice([f"{names[0]} writes to {names[1]}", f"{names[0]} and {names[1]} write to each other"])
        return s + (f" and {joined(names[2:])} is mentioned." if len(names) == 3 else f"; {joined(names[2:])} are mentioned." if names[2:] else ".")
    if len(names) == 1:
        return f"The text names {names[0]}."
    return g.r.choice([f"The people are {joined(names)}.", f"{joined(names)} take part."])


def make(g):
    """A list of the people of a text."""
    r = g.r
    domain = g.m.domain().encode("ascii", "ignore").decode()
    kind = r.choices([thread, minutes, note, addresses], [60, 14, 12, 14])[0]
    n = r.choice([2, 2, 2, 3, 3, 4]) if kind is thread else r.choice([1, 2, 2, 3, 3])
    people = [Person(g, domain) for _ in range(n)]
    text = kind(g, people)
    people.sort(key=lambda p: text.find(p.name) if p.name in text else len(text))
    style, keys = g.pick_style(), [r.choice(k) for k in KEYS]
    used = [0, 1, 2] if g.chance(0.6) else [0, r.choice([1, 2])]
    if g.chance(0.2):
        r.shuffle(used)
    named = {i: g.style_key(keys[i].split("_"), style) if g.chance(0.5) else keys[i] for i in used}
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]} if g.chance(0.5) else {"type": ["string", "null"]}
    item = {"type": "object", "properties": {named[i]: nullable if i else {"type": "string"} for i in used}}
    if g.chance(0.8):
        item["required"] = list(item["properties"])
    gold = [{named[i]: p.stated(text)[i] for i in used} for p in people]
    listed = {"type": "array", "items": item}
    if g.chance(0.3):
        listed["minItems"] = 1
    key = r.choice(NOUNS)
    schema, out = g.object_schema({key: listed}, [key]), {key: gold}
    if g.chance(0.6):  # a sentence first
        answer = sentence(g, kind, people) + "\n\n" + dumps(out)
        first = SENTENCE_FIRST[0] if g.chance(g.usual) else r.choice(SENTENCE_FIRST)
        return dict(task="reasoning", prompt=g.general_prompt(text, schema, first), answer=answer, text=text, schema=schema, gold=out)
    prompt = g.general_prompt(text, schema) if g.chance(0.2) else g.prompt(text, schema)
    return dict(task="array", prompt=prompt, answer=dumps(out), text=text, schema=schema, gold=out, people=len(people))
