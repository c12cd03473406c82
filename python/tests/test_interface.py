"""The declarations given to cffi match the headers, and the dataclasses have the fields of the structs."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import SOURCE

import kvcull
from kvcull import _headers
from kvcull._library import ffi, lib, macros


def structs():
    """Returns the structs whose members are known: {"kvc_option": its type}."""
    types = {name: ffi.typeof(f"struct {name}") for name in ffi.list_types()[1]}
    return {name: type_ for name, type_ in types.items() if type_.fields}


def enumerators():
    """Returns all enumerators of the declarations by name."""
    text = _headers.declarations(_headers.read(SOURCE / "include"))
    bodies = re.findall(r"\benum\s*\w*\s*\{([^}]*)\}", text)
    return sorted(set(re.findall(r"\bKVC_\w+", " ".join(bodies))))


def test_functions_are_those_of_the_headers():
    headers = [SOURCE / "include" / name for name in _headers.NAMES]
    declared = subprocess.run(["sh", SOURCE / "tools" / "symbols.sh", *headers], check=True, capture_output=True,
                              text=True).stdout.split()
    assert len(declared) > 50
    text = _headers.declarations(_headers.read(SOURCE / "include"))
    assert sorted(set(re.findall(r"\b(kvc_\w+)\s*\([^*]", re.sub(r"typedef[^;]*;", "", text)))) == declared
    for name in declared:
        assert ffi.typeof(getattr(lib, name)).kind == "function", name


def test_layouts_are_those_of_a_compiler(tmp_path):
    compiler = next((words for words in (os.environ.get("CC", "cc").split(), ["cc"], ["gcc"])
                     if words and all(map(shutil.which, words))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    known, lines = {}, []
    for name, type_ in structs().items():
        known[f"sizeof {name}"] = ffi.sizeof(type_)
        lines.append(f'printf("sizeof {name}=%lld\\n", (long long)sizeof(struct {name}));')
        for member, field in type_.fields:
            known[f"{name}.{member}"] = field.offset
            lines.append(f'printf("{name}.{member}=%lld\\n", (long long)offsetof(struct {name}, {member}));')
    for name in enumerators():
        known[name] = getattr(lib, name)
        lines.append(f'printf("{name}=%lld\\n", (long long){name});')
    includes = "".join(f"#include <{name}>\n" for name in _headers.NAMES)
    (tmp_path / "all.c").write_text(f"{includes}#include <stdio.h>\nint main(void) {{ {' '.join(lines)} return 0; }}\n")
    subprocess.run([*compiler, f"-I{SOURCE / 'include'}", tmp_path / "all.c", "-o", tmp_path / "all"], check=True)
    said = subprocess.run([tmp_path / "all"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(structs()) > 20 and len(enumerators()) > 60
    assert {line.split("=")[0]: int(line.split("=")[1]) for line in said} == known


@pytest.mark.parametrize("record, struct, besides", [
    (kvcull.ModelInfo, "kvc_model_info", set()),
    (kvcull.Stats, "kvc_session_stats", set()),
    (kvcull.Memory, "kvc_memory", set()),
    (kvcull.Estimate, "kvc_estimate", {"kind", "exact", "network_bytes"}),
    (kvcull.Method, "kvc_policy_class", None),
])
def test_dataclasses_have_the_fields_of_structs(record, struct, besides):
    fields = {name for name, _field in ffi.typeof(f"struct {struct}").fields}
    if besides is None:
        assert set(record.__dataclass_fields__) - {"common"} <= fields
    else:
        assert set(record.__dataclass_fields__) ^ fields == besides


def test_lists_of_names():
    assert len(kvcull.engine.MEMORY_KINDS) == lib.KVC_MEMORY_KINDS
    assert len(kvcull.policy.KINDS) == lib.KVC_OPTION_TEXT + 1
    assert [1 << i for i in range(len(kvcull.policy.STAGES))] == [
        getattr(lib, "KVC_STAGE_" + name.upper()) for name in kvcull.policy.STAGES]
    assert [getattr(lib, "KVC_POOL_" + name.upper()) for name in kvcull.host.POOLINGS] == [0, 1, 2]
    assert [getattr(lib, "KVC_ENTRY_" + name.upper()) for name in kvcull.host.ENTRY_KINDS] == [0, 1, 2]
    assert {"seed", *kvcull.Sampler.OPTIONS} - set(kvcull.Sampler.PENALTIES) == {
        name for name, _field in ffi.typeof("struct kvc_sampler_options").fields}


def test_versions():
    assert kvcull.__version__ == macros["KVC_VERSION"] == ffi.string(lib.kvc_version()).decode()
    assert kvcull.ARITHMETIC_VERSION == macros["KVC_ARITHMETIC_VERSION"]
