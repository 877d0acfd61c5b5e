"""The backend inside SGLang's engine on the CPU, with a tiny model of random weights."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

if os.environ.get("FFWD_TEST_SGLANG") != "1":
    pytest.skip("set FFWD_TEST_SGLANG=1 to test inside SGLang", allow_module_level=True)

import torch
import transformers

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Ulm", "Bern"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["city", "count"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<call>",
        "content": {"type": "json_schema", "json_schema": SCHEMA},
        "end": "</call>",
    },
}
CONSTRAINTS = {
    "json_schema": json.dumps(SCHEMA),
    "regex": r"INV-\d{3}-[A-F]",
    "ebnf": 'root ::= ("yes" | "no") " " [0-9] [0-9]',
    "structural_tag": json.dumps(TAG),
}
THINKING = 5


def is_record(text):
    record = json.loads(text)
    return (
        list(record) == ["city", "count"]
        and record["city"] in ("Ulm", "Bern")
        and 0 <= record["count"] <= 99
    )


CHECKS = {
    "json_schema": is_record,
    "regex": lambda text: re.fullmatch(CONSTRAINTS["regex"], text),
    "ebnf": lambda text: re.fullmatch("(yes|no) [0-9][0-9]", text),
    "structural_tag": lambda text: (
        is_record(text.removeprefix("<call>").removesuffix("</call>"))
        and text.startswith("<call>")
        and text.endswith("</call>")
    ),
}


# How texts begin in which the constraint holds from the start.
CONSTRAINED = re.compile(r'(\{"ci|INV-|yes|no|<call>).*', re.DOTALL)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a Llama of two layers and the tokenizer of the embedded model."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(ROOT / "crates/runtime/assets/extract-5m" / "tokenizer.json")
    )
    tokenizer.add_special_tokens({"eos_token": "<end>"})
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        # A multiple of 64, and more than the tokenizer has.
        vocab_size=-(-len(tokenizer) // 64) * 64 + 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module", params=["overlap", "in turns"])
def engine(model, request):
    """An engine with each scheduler."""
    import sglang

    engine = sglang.Engine(
        model_path=model,
        device="cpu",
        dtype="bfloat16",
        grammar_backend="ffwd",
        reasoning_parser="qwen3",
        enable_strict_thinking=True,
        attention_backend="torch_native",
        sampling_backend="pytorch",
        tool_call_parser="qwen25",
        disable_overlap_schedule=request.param == "in turns",
        disable_cuda_graph=True,
        max_total_tokens=4096,
        max_running_requests=8,
        context_length=512,
        skip_server_warmup=True,
        log_level="warning",
    )
    assert engine.server_args.disable_overlap_schedule == (request.param == "in turns")
    yield engine
    engine.shutdown()


def generate(engine, constraints, **options):
    """Outputs for constraints of several kinds, in one batch."""
    parameters = [
        {"temperature": 1.0, "max_new_tokens": 60, **constraint} for constraint in constraints
    ]
    return engine.generate([f"Write {i}:" for i in range(len(parameters))], parameters, **options)


def test_constraints_of_all_kinds_are_satisfied_in_one_batch(engine):
    kinds = [kind for kind in CONSTRAINTS for _ in range(2)]
    outputs = generate(engine, [{kind: CONSTRAINTS[kind]} for kind in kinds])
    for kind, output in zip(kinds, outputs):
        assert output["meta_info"]["finish_reason"]["type"] == "stop", (kind, output)
        assert CHECKS[kind](output["text"]), (kind, output["text"])


def test_a_refused_schema_fails_its_request_alone(engine):
    refused = json.dumps({"type": "object", "properties": {"a": {"type": "strnig"}}})
    good = CONSTRAINTS["json_schema"]
    # The second time the refusal comes from the cache.
    for _ in range(2):
        outputs = engine.loop.run_until_complete(
            asyncio.gather(
                *(
                    engine.async_generate("Write:", {"max_new_tokens": 60, "json_schema": text})
                    for text in (good, refused, good)
                ),
                return_exceptions=True,
            )
        )
        assert is_record(outputs[0]["text"]) and is_record(outputs[2]["text"])
        assert isinstance(outputs[1], ValueError)
        assert "/properties/a/type" in str(outputs[1])


def test_the_constraint_holds_after_the_reasoning(engine):
    kinds = list(CONSTRAINTS)
    constraints = [
        {kind: CONSTRAINTS[kind], "custom_params": {"thinking_budget": THINKING}} for kind in kinds
    ]
    outputs = generate(engine, constraints, require_reasoning=True)
    for kind, output in zip(kinds, outputs):
        thought, end, answer = output["text"].partition("</think>")
        assert end, output
        assert not CONSTRAINED.fullmatch(thought)
        assert CHECKS[kind](answer), (kind, output["text"])


def test_thinking_leaves_room_for_the_answer(engine):
    """Without a budget the thoughts of a random model would fill the whole limit."""
    for limit in (24, 60):
        parameters = {"temperature": 1.0, "max_new_tokens": limit, "regex": r"INV-\d{3}-[A-F]"}
        outputs = engine.generate(
            [f"Write {i}:" for i in range(6)], parameters, require_reasoning=True
        )
        for output in outputs:
            thought, end, answer = output["text"].partition("</think>")
            assert end and CHECKS["regex"](answer), output["text"]
            assert output["meta_info"]["finish_reason"]["type"] == "stop"


@pytest.mark.parametrize("several", [False, True])
def test_tools_hold_beside_a_format(engine, several):
    """Each output is a call with arguments of the schema, or the answer in the format."""
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
    from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat

    serving = OpenAIServingChat(engine.tokenizer_manager, engine.template_manager)
    arguments = {
        "type": "object",
        "properties": {"where": {"enum": ["north", "south"]}},
        "required": ["where"],
        "additionalProperties": False,
    }
    request = {
        "model": "tiny",
        "temperature": 1.5,
        "max_tokens": 120,
        "chat_template_kwargs": {"enable_thinking": False},
        "parallel_tool_calls": several,
        "tools": [{"type": "function", "function": {"name": "go", "parameters": arguments}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
    }

    async def chat(number):
        messages = [{"role": "user", "content": f"Go {number}!"}]
        asked = ChatCompletionRequest(messages=messages, seed=number, **request)
        return await serving.handle_request(asked, None)

    async def all_of_them():
        return await asyncio.gather(*(chat(number) for number in range(40)))

    kinds = set()
    for reply in engine.loop.run_until_complete(all_of_them()):
        message = reply.choices[0].message
        kinds.add(bool(message.tool_calls))
        if message.tool_calls:
            assert several or len(message.tool_calls) == 1
            for call in message.tool_calls:
                assert call.function.name == "go"
                assert json.loads(call.function.arguments)["where"] in ("north", "south")
        else:
            assert is_record(message.content), message.content
    assert kinds == {True, False}
