from __future__ import annotations

from pathlib import Path

import pytest

from dhd_labels.config import ENGINE_KINDS, load_config, preset_names
from dhd_labels.errors import DhdError


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads(name: str) -> None:
    assert load_config(name).name == name


def test_config_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config("oracle").seed = 3


@pytest.mark.parametrize(
    ("source", "overrides", "words"),
    [
        ("quikstart", [], "got 'quikstart'. Did you mean 'quickstart'?"),
        ("nowhere.yaml", [], "'nowhere.yaml' cannot be read"),
        ("oracle", ["protocol.block=3"], "'protocol.block' is unknown. Did you mean 'blocks'?"),
        ("oracle", ["protocol.blocks=many"], "'protocol.blocks' must be"),
        ("oracle", ["protocol.blocks=-1"], "greater than or equal to 0, got -1"),
        ("oracle", ["engines.world.world=exactt"], "got 'exactt'. Did you mean 'exact'?"),
        ("oracle", ["engines.world.slot=1"], "'engines.world.slot' is unknown. Did you mean 'slots'?"),
        (
            "oracle",
            ["engines.world.kind=llamacp"],
            "'engines.world.kind' must be one of 'llamacpp', 'vllm', 'openai', ",
        ),
        ("oracle", ["engines.world={kind: opnai, api_key: secret}"], "'ray', got 'opnai'. Did you mean 'openai'?"),
        ("oracle", ["engines.world={slots: 3}"], "'engines.world.kind' is missing"),
        ("oracle", ["engines.world={kind: ray, engine: {kind: ray}}"], "'engines.world.engine.kind' must be one of"),
        ("oracle", ["roles.integrator.engine=wrld"], "got 'wrld'. Did you mean 'world'?"),
        ("oracle", ["roles.integrator.temperature=0"], "must be above 0 under noise regime 'sampled'"),
        (
            "oracle",
            ["roles.recruiter.grammar=small/recruiter", "roles.recruiter.json_schema=standard/recruiter"],
            "'grammar' or a 'json_schema', not both, got 'small/recruiter' and 'standard/recruiter'",
        ),
        (
            "oracle",
            ["roles.integrator.json_schema=standard/hypothesizer"],
            "'roles.integrator.json_schema' must be null, got 'standard/hypothesizer'",
        ),
        (
            "oracle",
            ["roles.recruiter.json_schema=standard/recruiter", "roles.recruiter.extra_body={response_format: {}}"],
            "must not hold 'response_format'",
        ),
        ("oracle", ["protocol"], "must read key=value"),
        ("oracle", ["name.x=1"], "goes below 'name', which is a single value"),
        ("oracle", ["protocol.blocks=[1"], "is not valid YAML"),
        ("oracle", ["seed=3", "sed=4"], "'sed' is unknown. Did you mean 'seed'?"),
    ],
)
def test_bad_config_says_what_to_do(source: str, overrides: list[str], words: str) -> None:
    with pytest.raises(DhdError) as caught:
        load_config(source, overrides)
    assert words in str(caught.value)


def test_every_problem_is_listed_at_once() -> None:
    with pytest.raises(DhdError) as caught:
        load_config("oracle", ["protocol.blocks=-1", "sed=4", "outcomes.no_answer=wrong"])
    assert all(word in str(caught.value) for word in ("protocol.blocks", "'sed'", "outcomes.no_answer"))


def test_overrides_are_typed_yaml() -> None:
    config = load_config("oracle", ["protocol.blocks=7", "engines.world.latency_s=0.5", "benchmark.size=3"])
    assert (config.protocol.blocks, config.engines["world"].latency_s, config.benchmark.size) == (7, 0.5, 3)  # type: ignore[union-attr]


VLLM = ["engines.world={kind: vllm, model: org/tiny}"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["engines.world.gpu_memory=1"], "gpu_memory' is unknown. Did you mean 'gpu_memory_utilization'?"),
        (["engines.world.dtype=bfloat15"], "'engines.world.dtype' must be"),
        (["engines.world.dtype=bfloat15"], "got 'bfloat15'. Did you mean 'bfloat16'?"),
        (["engines.world.batch=0"], "greater than or equal to 1, got 0"),
        (["engines.world.model=/models/tiny"], "The 'name' of a vllm engine must be set when its 'model' is a folder"),
        (
            ["engines.vllm={kind: vllm, model: org/m, batsh: 3}"],
            "'engines.vllm.batsh' is unknown. Did you mean 'batch'?",
        ),
    ],
)
def test_bad_vllm_config_says_what_to_do(overrides: list[str], words: str) -> None:
    with pytest.raises(DhdError) as caught:
        load_config("oracle", [*VLLM, *overrides])
    assert words in str(caught.value)


def test_every_kind_of_engine_has_a_public_name() -> None:
    config = load_config("oracle", VLLM)
    assert config.engines["world"].public_name == "org/tiny"
    named = load_config("oracle", [*VLLM, "engines.world.model=/models/tiny", "engines.world.name=tiny"])
    assert named.engines["world"].public_name == "tiny"
    assert ENGINE_KINDS.keys() == {"llamacpp", "vllm", "openai", "scripted", "ray"}
    assert all("public_name" in dir(kind) for kind in ENGINE_KINDS.values())


@pytest.mark.parametrize("text", ["- a list", "just text", "a: [", ""])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(DhdError, match="YAML"):
        load_config(str(file))
