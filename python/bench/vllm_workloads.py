"""Prompts and schemas of the measurements inside vLLM."""

import random

NAMES = "Mikkel Andersson,Ada Moreau,Yuki Tanaka,Priya Nair,Tom Becker,Lena Fischer,Omar Haddad".split(",")
FIRMS = "Bright Glacier Consulting,Nordwind Paper,Blue Harbor Foods,Kestrel Tools,Alta Print".split(",")
CITIES = "Rome,Oslo,Lyon,Porto,Ghent,Turin,Malmö,Graz".split(",")
TOPICS = "rain gardens,paper mills,old bridges,night trains,honey bees,tide pools,stone walls".split(",")


def closed(**properties):
    """A schema of an object with exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def short(length):
    return {"type": "string", "maxLength": length}


SCHEMA_HEAVY = closed(
    invoice_number={"type": "string", "pattern": "^INV-[0-9]{5}$"},
    vendor_name=short(30),
    customer_name=short(30),
    payment_status={"enum": ["paid_in_full", "partially_paid", "not_yet_paid"]},
    delivery_address=closed(city_name=short(12), country_code={"enum": ["IT", "NO", "FR", "PT"]}),
    total_amount={"type": "integer", "minimum": 0, "maximum": 9999},
    currency_code={"enum": ["EUR", "USD"]},
)
TEXT_HEAVY = closed(summary={"type": "string", "minLength": 160, "maxLength": 240})
# Does not end within the tokens of a measurement, so all requests are in all steps.
LONG = closed(
    name=short(12), kind={"enum": ["first", "second"]}, text={"type": "string", "minLength": 900}
)
OTHERS = [
    closed(name=short(24), city=short(12), active={"type": "boolean"}),
    closed(
        items={
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "items": closed(product=short(16), quantity={"type": "integer", "maximum": 99}),
        }
    ),
    closed(sentiment={"enum": ["very_positive", "neutral", "very_negative"]}, reason=short(40)),
]


def invoice(rng):
    """A text with an invoice."""
    return (
        f"INVOICE INV-{rng.randrange(10_000, 99_999)}. Vendor: {rng.choice(FIRMS)}. "
        f"Customer: {rng.choice(NAMES)}, {rng.choice(CITIES)}. Total: {rng.randrange(10, 9000)} EUR, "
        f"{rng.choice(['paid', 'not paid', 'half paid'])}. "
        f"{rng.randrange(2, 90)} boxes of paper and {rng.randrange(2, 90)} pens."
    )


def job(kind, seed):
    """Return a prompt and a schema: `schema`, `text`, `long`, or `mixed` for one of several."""
    rng = random.Random(f"{kind} {seed}")
    if kind == "schema":
        return f"Extract as JSON.\n{invoice(rng)}", SCHEMA_HEAVY
    if kind == "text":
        topic = rng.choice(TOPICS)
        return f"Write a short text about {topic} near {rng.choice(CITIES)}, as JSON.", TEXT_HEAVY
    if kind == "long":
        return f"Write a long text about {rng.choice(TOPICS)} near {rng.choice(CITIES)}.", LONG
    schema = ([SCHEMA_HEAVY, *OTHERS])[seed % 4]
    return f"Answer in JSON.\n{invoice(rng)}", schema
