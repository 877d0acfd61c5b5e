"""Agents that work through a list by tool calls, one item a step.

Each step offers the items that are left, and the choice that needs some sense:
the account of an invoice, the team of a ticket, the folder of a document. When
nothing is left, only the closing call is offered.
"""
from values import Nonce, alnum, digits, dumps

# account | words in the names of firms
ACCOUNTS = """
office|Office Supplies, Stationery, Paper Goods, Office Furniture, Desk World, Pens & Pads, Toner Shop, Office Chairs, Paper Merchants, Shelving
transport|Couriers, Freight, Haulage, Logistics, Parcel Service, Shipping, Removals, Cargo, Express Delivery, Carriers, Forwarding
printing|Print Works, Printers, Copy Shop, Press, Bookbinders, Posters & Prints, Typesetting, Digital Print, Lithographers
travel|Hotel, Airlines, Travel Agency, Railways, Taxi, Guest House, Tours, Airport Lounge, Ferries
energy|Power, Electricity, Gas Works, Solar, District Heating, Energy, Grid Company
water|Water Works, Water Board, Sewage
food|Bakery, Catering, Coffee Roasters, Grocers, Canteen, Butchers, Fruit & Veg, Sandwich Bar, Tea House
telephone|Telecom, Mobile, Broadband, Phone Company, Internet, Fibre
software|Software, Cloud Hosting, Web Services, Data Centre, Apps, Computing
insurance|Insurance, Assurance, Mutual, Underwriters
legal|Solicitors, Law Office, Notaries, Attorneys, Barristers
repairs|Repairs, Plumbing, Heating Engineers, Roofers, Electricians, Locksmiths, Glaziers
cleaning|Cleaning, Laundry, Window Cleaners, Waste Disposal, Sweepers
marketing|Advertising, Media, Design Studio, Promotions, Billboards, Events
training|Academy, Training, Seminars, Language School, Workshops
rent|Properties, Estates, Lettings, Landlords, Real Estate
vehicles|Garage, Motors, Tyres, Filling Station, Car Hire, Bodyshop
medical|Pharmacy, Dental Supplies, Clinic, Medical Devices
garden|Nursery, Landscapes, Tree Care, Seeds, Lawn Mowers
books|Bookshop, Publishers, Books, Library Supplies
tools|Hardware, Tools, Timber, Builders' Merchants, Ironmongers
"""
# team | what a ticket says
TEAMS = """
network|no internet on the second floor, the wifi drops, cannot reach the file server, VPN does not connect, router blinks red, slow connection, cable cut
hardware|screen stays black, keyboard with a missing key, laptop does not charge, mouse broken, fan is loud, monitor flickers, docking station dead
billing|charged twice, wrong amount on the bill, invoice missing, refund not received, card declined, VAT number wrong, asks for a receipt
accounts|forgot the password, locked out, new colleague needs a login, change of name, delete a user, two-factor code lost, reset access
printing|printer jams, toner empty, prints in pink, paper tray stuck, scanner cuts the page, printer offline
software|program crashes on start, update fails, button does nothing, error on saving, wrong translation, macro broken, licence expired
security|strange mail with a link, stolen laptop, virus warning, badge lost, somebody knew my PIN, suspicious login
facilities|heating is cold, lamp broken, door does not lock, water in the cellar, lift stuck, window will not close, smell in the kitchen
shipping|parcel lost, wrong address on the label, courier did not come, pallet damaged, no tracking number, delivery late
sales|wants a quote, asks for a discount, interested in the big plan, demo next week, price list please, upgrade to more seats
staff|holiday request, payslip wrong, sick note, contract renewal, parental leave, new bank details, overtime
"""
# folder | what a document is
FOLDERS = """
contracts|lease of the workshop, agreement with the carrier, signed terms, employment contract, licence agreement, renewal of the lease
taxes|notice from the tax office, VAT return, assessment, trade tax, letter on tax arrears
photos|team picture, shot of the shop front, pictures of the fair, portrait, aerial photograph
plans|ground plan, wiring diagram, drawing of the stairs, map of the site, sketch of the hall, elevation
minutes|notes of the board, protocol of the meeting, what the council decided, committee report
letters|thank-you letter, reply to a customer, note to the neighbours, letter of recommendation, greeting card
manuals|how to clean the machine, operating instructions, assembly guide, safety rules, user handbook
applications|CV of a carpenter, letter of an applicant, certificates, cover letter, references of a candidate
statements|account statement, list of payments, credit card bill, balance, interest of the savings account
press|cutting from the paper, interview, article on the opening, review of the concert, radio script
"""


class Job:
    def __init__(self, table, system, call, close, item, choice, task, prefixes, done):
        rows = [row.split("|") for row in table.strip().splitlines()]
        self.table = {n: [w.strip() for w in words.split(", ")] for n, words in rows}
        self.system, self.call, self.close, self.item, self.choice = system, call, close, item, choice
        self.task, self.prefixes, self.done = task, prefixes, done
        self.of_firms = table is ACCOUNTS


JOBS = [
    Job(ACCOUNTS, "You are a bookkeeper. Call one tool at a time.", ("book_invoice", "Book an invoice to an account"), ("close_ledger", "End the work"), "invoice", "account", "Book each invoice to the account that fits, then close the ledger.", "RE INV LS AB KP FR BT", "booked"),
    Job(ACCOUNTS, "You keep the books.", ("post_bill", "Post a bill to a cost centre"), ("finish", "Nothing is left"), "bill", "cost_centre", "Post every bill to its cost centre.", "B BILL R INV", "posted"),
    Job(TEAMS, "You sort tickets. Call one tool at a time.", ("assign_ticket", "Give a ticket to a team"), ("close_queue", "The queue is empty"), "ticket", "team", "Assign each ticket to the team that should look at it.", "T TICK INC SR", "assigned"),
    Job(FOLDERS, "You file documents. One call at a time.", ("file_document", "Put a document into a folder"), ("done", "All documents are filed"), "document", "folder", "File each document in the folder where it belongs, then say that you are done.", "D DOC SCAN A", "filed"),
]


def firm(g, word):
    r = g.r
    name = r.choice([r.choice(g.m.p.NOUN).capitalize(), Nonce(r), g.m.last(), r.choice(g.m.p.NOUN).capitalize() + r.choice(g.m.p.NOUN), g.m.last() + " & " + g.m.last()])
    return f"{name} {word}" if g.chance(0.8) else f"{word} {name}"


def money(g):
    return f"{g.r.randint(5, 4000)}.{g.r.choice(['00', '50', '90', '20', '99', '00'])} {g.r.choice(['EUR', 'USD', 'GBP', 'CHF', 'SEK'])}"


def tool(name, description, properties):
    p = {"type": "object", "properties": properties}
    if properties:
        p["required"] = list(properties)
    p["additionalProperties"] = False
    return {"type": "function", "function": {"name": name, "description": description, "parameters": p}}


def make(g):
    """One step of a job: its tools, the conversation so far, and the call."""
    r = g.r
    job = r.choice([JOBS[0], JOBS[0], *JOBS])
    n = r.choice([1, 2, 3, 3, 4, 5])
    offered = r.sample(list(job.table), r.choice([3, 4, 4, 5]))
    other = r.choice(["other", "misc", "various"]) if g.chance(0.6) else None
    choices = offered + ([other] if other else [])
    items = {}
    while len(items) < n:
        topic = r.choice(offered) if not other or g.chance(0.85) else r.choice([t for t in job.table if t not in offered])
        word = r.choice(job.table[topic])
        pre = r.choice(job.prefixes.split()) if g.chance(0.5) else alnum(r, r.randint(1, 3), "ABCDEFGHKLMNPRSTW")
        number = f"{pre}-{digits(r, r.randint(2, 5))}"
        what = f"{firm(g, word)} {money(g)}" if job.of_firms else word
        items[number] = (what, topic if topic in offered else other)
    if g.chance(0.3):
        r.shuffle(choices)
    user = job.task + "\n" + "\n".join(f"{k}: {w}" for k, (w, _) in items.items())
    numbers, turns = list(items), []
    step = r.randint(0, n)
    wording = r.choice([("<tool_call>\n", "\n</tool_call>"), ("<tool_call>", "</tool_call>")])
    spaced = g.chance(0.5)

    def call(name, arguments):
        body = dumps({"name": name, "arguments": arguments})
        return wording[0] + (body.replace('":', '": ').replace(',"', ', "') if spaced else body) + wording[1]

    for i, k in enumerate(numbers[:step]):
        turns.append(("assistant", call(job.call[0], {job.item: k, job.choice: items[k][1]})))
        turns.append(("tool", dumps({job.done: k, "open": n - 1 - i})))
    left = numbers[step:]
    if left:
        tools = [tool(*job.call, {job.item: {"enum": sorted(left)}, job.choice: {"enum": choices}})]
        gold = {"name": job.call[0], "arguments": {job.item: left[0], job.choice: items[left[0]][1]}}
    else:
        tools, gold = [tool(*job.close, {})], {"name": job.close[0], "arguments": {}}
    prompt = f"<|im_start|>system\n{job.system}\nTools:\n{dumps(tools)}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n"
    prompt += "".join(f"<|im_start|>{who}\n{what}<|im_end|>\n" for who, what in turns) + "<|im_start|>assistant\n"
    return dict(task="tool", prompt=prompt, answer=call(gold["name"], gold["arguments"]), text=user, tools=tools, gold=gold)
