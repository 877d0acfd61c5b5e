"""Records of many texts with vLLM in the workers of a Ray cluster, and this package as its backend.

    pip install vllm 'ray[data]' ffwd-llm
    python examples/ray_vllm.py MODEL

Each worker has one engine of vLLM. The constraint is the schema of a type, and forced tokens are drafts
(jump-forward). A text whose record does not end is a row with an error. A faulty schema ends the job:
it is faulty for every text.
"""

import sys

import ray
from pydantic import BaseModel, Field, ValidationError

TASK = "Write the vendor and the total of this letter as JSON.\n\n"


class Invoice(BaseModel):
    vendor: str = Field(max_length=40)
    total: float


class Worker:
    """An engine of vLLM in a process of Ray."""

    def __init__(self, model):
        import ffwd.vllm
        from vllm import LLM, SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        ffwd.vllm.register()
        self.llm = LLM(
            model,
            max_model_len=1024,
            max_num_seqs=16,
            structured_outputs_config={"backend": "ffwd"},
            speculative_config={"model": "ffwd.vllm.JumpForward", "num_speculative_tokens": 8},
        )
        self.parameters = SamplingParams(
            temperature=0,
            max_tokens=80,
            structured_outputs=StructuredOutputsParams(json=Invoice.model_json_schema()),
        )

    def __call__(self, batch):
        messages = [[{"role": "user", "content": TASK + text}] for text in batch["body"]]
        outputs = self.llm.chat(messages, self.parameters, use_tqdm=False)
        records, errors = [], []
        for output in outputs:
            text = output.outputs[0].text
            try:
                Invoice.model_validate_json(text)
                records.append(text)
                errors.append("")
            except ValidationError as error:
                records.append("")
                errors.append(f"{output.outputs[0].finish_reason}: {error}")
        return {**batch, "record": records, "error": errors}


def main():
    rows = [{"id": i, "body": f"Vendor: Number {i} Ltd. Total: {i}.50 EUR."} for i in range(24)]
    ray.init()
    found = (
        ray.data.from_items(rows, override_num_blocks=2)
        .map_batches(
            Worker,
            fn_constructor_args=(sys.argv[1],),
            batch_size=12,
            # One worker for each GPU: num_gpus=1, and as many workers as the cluster has.
            num_gpus=0,
            compute=ray.data.ActorPoolStrategy(size=1),
        )
        .take_all()
    )
    for row in found[:3]:
        print(row["id"], row["record"], row["error"])
    valid = [row for row in found if not row["error"]]
    print(f"{len(found)} rows, {len(found) - len(valid)} failed")
    assert sorted(row["id"] for row in found) == list(range(24))
    assert valid


if __name__ == "__main__":
    main()
