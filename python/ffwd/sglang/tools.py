"""Tools together with a final format: the output is a call of a tool, or the answer in that format.

SGLang applies one constraint to a request, and drops that of the tools where there is a format. Here both
become alternatives of one structural tag. A call has the form of the server's tool parser, and arguments
of its schema.

# Alternatives considered

Free text in front of calls was left out: each answer would be the beginning of one.
"""

from __future__ import annotations

import json
from typing import Any


def beside_format(original: Any, request: Any, *arguments: Any, **named: Any) -> dict[str, Any]:
    """Return the sampling parameters of a chat request.

    SGLang calls it around `ChatCompletionRequest.to_sampling_params`.

    Args:
        original: SGLang's function.
        request: The request.
        arguments, named: Further arguments of the function, as SGLang passes them.
    """
    calls = _calls(request)
    if calls is not None:
        # What SGLang would say about it does not hold.
        named["tool_call_constraint"] = None
    parameters = original(request, *arguments, **named)
    schema = parameters.get("json_schema")
    if calls is None or schema is None:
        return parameters
    answer = {"type": "json_schema", "json_schema": json.loads(schema)}
    form = {"type": "or", "elements": [calls, answer]}
    parameters["structural_tag"] = json.dumps({"type": "structural_tag", "format": form})
    del parameters["json_schema"]
    return parameters


def _calls(request: Any) -> dict[str, Any] | None:
    """Return the form of one or more calls; None where tools and a format do not meet."""
    from sglang.srt.function_call.function_call_parser import FunctionCallParser, ToolStrictLevel
    from sglang.srt.parser.response_template import ResponseTemplateToolDetector
    from sglang.srt.runtime_context import get_exec, get_serving

    given, parser = request.response_format, get_serving().tool_call_parser
    asked = request.tools and request.tool_choice == "auto" and parser
    if not asked or given is None or given.type not in ("json_schema", "json_object"):
        return None
    if get_exec().kernel.grammar_backend != "ffwd":
        return None
    # Those know both themselves.
    if issubclass(FunctionCallParser.ToolCallParserEnum[parser], ResponseTemplateToolDetector):
        return None
    tools = FunctionCallParser(request.tools, parser)
    tools.tool_strict_level = ToolStrictLevel.PARAMETER
    several = request.parallel_tool_calls is not False
    found = tools.get_structure_constraint("required", parallel_tool_calls=several)
    if found is None or found[0] != "structural_tag":
        return None
    form = found[1].model_dump(by_alias=True)
    if "format" in form:
        return form["format"]
    tags = [
        {
            "type": "tag",
            "begin": one["begin"],
            "content": {"type": "json_schema", "json_schema": one["schema"] or {}},
            "end": one["end"],
        }
        for one in form["structures"]
    ]
    first = {"type": "or", "elements": tags}
    if not several:
        return first
    more = {"type": "triggered_tags", "triggers": form["triggers"], "tags": tags}
    return {"type": "sequence", "elements": [first, more]}
