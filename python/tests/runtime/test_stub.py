"""The stub of the compiled module has its names and signatures, and the packages one version."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import ffwd

from .conftest import ROOT

runtime = pytest.importorskip("ffwd_runtime", reason="the package ffwd-llm-runtime is not installed")
STUB = Path(runtime.__file__).parent / "_runtime.pyi"
SPECIAL = {"__new__", "__iter__", "__next__"}


def of_stub(function):
    """Name, kind and default of each parameter, without `self` and `cls`."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    found = [(arg.arg, False, default) for arg, default in zip(positional, defaults)]
    found += [(arg.arg, True, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults)]
    return [(n, k, d and ast.literal_eval(d)) for n, k, d in found if n not in ("self", "cls")]


def of_module(function):
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        found.append((parameter.name, keyword, ... if default == [] else default))
    return [entry for entry in found if entry[0] != "self"]


def test_the_stub_is_the_module():
    module = ffwd.runtime._runtime()
    nodes = {n.name: n for n in ast.parse(STUB.read_text()).body if hasattr(n, "name")}
    assert set(nodes) - {"_make_constraint"} == {n for n in dir(module) if not n.startswith("_")}
    for name, node in nodes.items():
        if isinstance(node, ast.FunctionDef):
            assert of_stub(node) == of_module(getattr(module, name)), name
            continue
        cls = getattr(module, name)
        stubs = {f.name: f for f in node.body if hasattr(f, "name")}
        assert stubs.keys() - SPECIAL == {n for n in vars(cls) if not n.startswith("_")}, name
        for member, function in stubs.items():
            found = inspect.getattr_static(cls, member)
            if function.decorator_list:
                assert inspect.isgetsetdescriptor(found), member
            elif member not in ("__iter__", "__next__"):
                actual = cls if member == "__new__" else found
                assert of_stub(function) == of_module(actual), f"{name}.{member}"


def options_of(function, *arguments):
    """The names that a function lists when it refuses an option."""
    with pytest.raises(TypeError, match="there is no option") as caught:
        function(*arguments, **{"z" * 20: 1})
    return set(re.search("the options are (.*)", str(caught.value))[1].split(", "))


def test_the_options_of_python_are_those_of_the_module(engine):
    module = ffwd.runtime._runtime()
    assert options_of(module.Options) == set(ffwd.options.GenerateOptions.__annotations__)
    assert options_of(module.Extractor, engine._inner, "{}") == ffwd.options.SCHEMA_OPTIONS
    for kind in (ffwd.options.GenerateOptions, ffwd.options.SchemaOptions):
        for name in kind.__annotations__:
            assert re.search(rf"^ {{8}}{name}: ", kind.__doc__, re.M), name


def test_a_misspelt_option_is_named_with_the_right_one(engine):
    for options, right in [
        ({"temprature": 1.0}, "temperature"),
        ({"max_token": 3}, "max_tokens"),
        ({"logprob": True}, "logprobs"),
    ]:
        with pytest.raises(TypeError, match=f'did you mean "{right}"'):
            engine.generate("a", **options)
    with pytest.raises(TypeError, match='did you mean "key_order"'):
        engine.extractor("{}", keyorder="any")
    for options, right in [({"instruction": "a"}, "instructions"), ({"tempereture": 1.0}, "temperature")]:
        with pytest.raises(TypeError, match=f'did you mean "{right}"'):
            engine.extract("a", {}, **options)


@pytest.mark.parametrize(
    "name, value, kind",
    [
        ("max_tokens", "3", TypeError),
        ("max_tokens", 1 << 80, ValueError),
        ("confidence", 1, TypeError),
        ("guard", "no", TypeError),
        ("top_p", "high", TypeError),
        ("stop_tokens", [-1], ValueError),
    ],
    ids=str,
)
def test_a_wrong_value_is_named_with_its_option(name, value, kind):
    with pytest.raises(kind, match=f"{name} is "):
        ffwd.runtime._runtime().Options(**{name: value})


def test_the_packages_have_one_version():
    assert runtime.__version__ == ffwd.__version__
    own, other = (
        (ROOT / "python" / path).read_text()
        for path in ("pyproject.toml", "runtime/pyproject.toml")
    )
    assert f'"ffwd-llm-runtime=={ffwd.__version__}"' in own
    assert f'dependencies = ["ffwd-llm=={ffwd.__version__}"]' in other
