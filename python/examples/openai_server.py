"""Records from any server of OpenAI's API, with each answer checked here.

    python examples/openai_server.py http://127.0.0.1:8000/v1 [MODEL]

Servers such as `ffwd serve`, vLLM and SGLang take the schema of a type as `response_format`. Some ignore
what they do not know and answer with plain text. So each answer is compared with the same schema by a
matcher of this package, which needs no tokenizer of the model, and says where a text leaves the schema.
An answer that does is continued once from its valid part.

Needs pydantic, and no client library.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

import ffwd


class Invoice(BaseModel):
    # Without this, a schema permits further properties, and a small model may write them for ever.
    model_config = ConfigDict(extra="forbid")

    number: str = Field(pattern="^INV-[0-9]{5}$")
    vendor: str = Field(max_length=40)
    total: float
    currency: Literal["EUR", "USD", "GBP"]


TEXTS = [
    f"INVOICE INV-{20400 + i}\nBright Glacier Consulting\nTotal: {1800 + i}.50 EUR" for i in range(6)
]


class Checker:
    """Compares texts with a schema. A vocabulary of single bytes fits every model."""

    def __init__(self, schema):
        tokens = [bytes([byte]) for byte in range(256)]
        vocabulary = ffwd.Vocabulary.from_tokens([*tokens, b""], eos=256)
        # Servers differ in the whitespace of their JSON.
        constraint = ffwd.Constraint.json_schema(schema, whitespace=8)
        self.grammar = ffwd.Compiler(vocabulary).compile(constraint)

    def fault(self, text):
        """None for a valid text; otherwise how many of its bytes may stay, and why."""
        matcher = self.grammar.matcher()
        text = text.encode()
        legal = matcher.accept_tokens(list(text))
        if legal < len(text):
            return legal, str(matcher.explain(text[legal]))
        return None if matcher.is_accepting() else (legal, "the text ends too early")


class Client:
    def __init__(self, base, model, schema):
        self.base, self.model, self.schema = base, model, schema
        self.checker = Checker(schema)

    def post(self, body):
        headers = {"Content-Type": "application/json"}
        if "OPENAI_API_KEY" in os.environ:
            headers["Authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
        body = {"model": self.model, "temperature": 0, "max_tokens": 200, **body}
        request = urllib.request.Request(
            f"{self.base}/chat/completions", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            # A schema that the server refuses: its message has the JSON pointer.
            raise SystemExit(f"status {error.code}: {error.read().decode()}") from None

    def extract(self, text):
        """The record of a text.

        Raises:
            ValueError: The server does not follow the schema.
        """
        question = f"Write the record of this text as JSON. Schema: {self.schema}\n\n{text}"
        messages = [{"role": "user", "content": question}]
        wanted = {"name": "record", "schema": json.loads(self.schema), "strict": True}
        form = {"response_format": {"type": "json_schema", "json_schema": wanted}}
        answer = self.post({"messages": messages, **form})
        fault = self.checker.fault(answer)
        if fault is not None:
            start = answer.encode()[: fault[0]].decode(errors="ignore")
            again = {"role": "user", "content": f"Write it again, beginning with: {start}"}
            history = [*messages, {"role": "assistant", "content": answer}, again]
            answer = self.post({"messages": history, **form})
            fault = self.checker.fault(answer)
        if fault is not None:
            raise ValueError(f"byte {fault[0]} of {answer!r}: {fault[1]}")
        return Invoice.model_validate_json(answer)


def first_model(base):
    with urllib.request.urlopen(f"{base}/models") as answer:
        return json.load(answer)["data"][0]["id"]


def main():
    base = sys.argv[1].rstrip("/")
    model = sys.argv[2] if len(sys.argv) > 2 else first_model(base)
    client = Client(base, model, json.dumps(Invoice.model_json_schema()))
    assert client.checker.fault('{"number":"INV-1')[1] == "the text ends too early"
    assert client.checker.fault("Sure! Here is")[0] == 0
    with ThreadPoolExecutor(max_workers=4) as pool:
        for invoice in pool.map(client.extract, TEXTS):
            print(invoice)


if __name__ == "__main__":
    main()
