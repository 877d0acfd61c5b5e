"""The package `ffwd-llm` is the module `ffwd`, and servers find its plugins."""

from importlib import metadata

import ffwd


def test_the_package_has_the_version_of_the_module():
    assert metadata.version("ffwd-llm") == ffwd.__version__


def test_servers_find_the_plugins():
    points = metadata.distribution("ffwd-llm").entry_points
    assert {(point.group, point.name, point.value) for point in points} == {
        ("vllm.general_plugins", "ffwd", "ffwd.vllm:register"),
        ("sglang.srt.plugins", "ffwd", "ffwd.sglang:register"),
        ("langextract.providers", "ffwd", "ffwd.langextract:FfwdLanguageModel"),
    }


def test_an_extra_names_the_runtime_of_the_same_version():
    needs = metadata.requires("ffwd-llm")
    for extra in ("runtime", "ray"):
        assert f"ffwd-llm-runtime=={ffwd.__version__} ; extra == '{extra}'" in needs
