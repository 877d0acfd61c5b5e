"""The stub of types has the names and the signatures of the module."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import ffwd
from ffwd import _ffwd

STUB = ast.parse((Path(ffwd.__file__).parent / "_ffwd.pyi").read_text())
OPERATORS = {"__add__", "__or__", "__and__", "__invert__"}
OWN = {"__init__", "__len__", "__new__", *OPERATORS}


def parameters_of_stub(function):
    """Name, kind and default of each parameter."""
    args = function.args
    found = []
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    for arg, default in zip(positional, defaults):
        found.append((arg.arg, "positional", default))
    for arg, default in zip(args.kwonlyargs, args.kw_defaults):
        found.append((arg.arg, "keyword", default))
    return [(name, kind, default and ast.literal_eval(default)) for name, kind, default in found]


# A call of each method that takes `**options`, with what it needs.
TOOL = [{"type": "function", "function": {"name": "f"}}]
CALLS = {
    "json_schema": {"schema": {}},
    "json_object": {},
    "structural_tag": {"tag": {"type": "structural_tag", "format": {"type": "any_text"}}},
    "substring": {"source": "a b"},
    "labels": {"labels": ["a"]},
    "token_masks": {"positions": [1]},
    "token_fsm": {"transitions": [(0, 1, 1)], "accept": [1]},
    "tools": {"tools": TOOL, "style": "hermes"},
}


def parameters_of_module(function):
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            found += options_of(function)
            continue
        keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        found.append((parameter.name, "keyword" if keyword else "positional", default))
    return found


def options_of(function):
    """Name, kind and default of each option: `pickle` keeps all of them."""
    needed = CALLS[function.__name__]
    made = function(**needed).__reduce__()[1][1]
    with pytest.raises(TypeError, match="there is no option") as caught:
        function(**needed, **{"z" * 20: 1})
    names = re.search("the options are (.*)", str(caught.value))[1].split(", ")
    assert set(names) == made.keys() - needed.keys()
    return [(name, "keyword", made[name]) for name in names]


def is_property(function):
    return any(isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list)


def without(parameters, names):
    return [p for p in parameters if p[0] not in names]


def test_the_stub_names_what_the_module_has():
    names = {n.name for n in STUB.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    public = {name for name in dir(_ffwd) if not name.startswith("_")}
    assert names == public
    assert public <= set(ffwd.__all__)
    assert all(hasattr(ffwd, name) for name in ffwd.__all__)


def test_functions_have_the_parameters_of_the_stub():
    functions = [node for node in STUB.body if isinstance(node, ast.FunctionDef)]
    assert functions
    for function in functions:
        assert parameters_of_stub(function) == parameters_of_module(getattr(_ffwd, function.name))


def test_classes_have_the_members_of_the_stub():
    classes = [node for node in STUB.body if isinstance(node, ast.ClassDef)]
    assert classes
    for node in classes:
        cls = getattr(_ffwd, node.name)
        if node.name == "Error":
            fields = {field.target.id for field in node.body}
            assert all(hasattr(cls, field) for field in fields)
            continue
        stubs = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
        public = {n for n in vars(cls) if not n.startswith("_")}
        assert {n for n in stubs if n not in OWN} == public, node.name
        for name, function in stubs.items():
            member = inspect.getattr_static(cls, name)
            if is_property(function):
                assert inspect.isgetsetdescriptor(member), name
                continue
            if name == "__len__" or name in OPERATORS:
                continue
            actual = cls if name == "__new__" else getattr(cls, name)
            expected = without(parameters_of_stub(function), {"self", "cls"})
            found = without(parameters_of_module(actual), {"self"})
            assert sorted(found, key=str) == sorted(expected, key=str), f"{node.name}.{name}"


def test_everything_public_has_a_docstring():
    for name in ffwd.__all__:
        if name == "__version__":
            continue
        value = getattr(ffwd, name)
        assert inspect.getdoc(value), name
        own = inspect.isclass(value) and not issubclass(value, Exception)
        fields = getattr(value, "__dataclass_fields__", {})
        assert all(re.search(rf"^ {{8}}.*\b{field}\b.*: ", value.__doc__, re.M) for field in fields), name
        for member in vars(value) if own else ():
            if not member.startswith("_") and member not in fields and (name, member) not in FIELDS:
                assert inspect.getdoc(inspect.getattr_static(value, member)), f"{name}.{member}"


# Their class describes them.
FIELDS = {("ConstraintWarning", field) for field in ("kind", "pointer", "message")} | {
    ("Explanation", field) for field in ("legal", "reason", "fits", "examples", "may_end", "path")
}


def test_the_examples_of_the_module_run():
    import doctest

    assert doctest.testmod(ffwd).attempted > 0 and doctest.testmod(ffwd).failed == 0
