"""The data set card: typed facts in, a README with a YAML header out.

Whatever the template prints is escaped unless this module made it as Markdown, so text of users and models
cannot act. The header is written by `huggingface_hub.DatasetCardData` from plain Python values and read
back before it is returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from dhd_labels.dataset.header import KEY, data_path
from dhd_labels.dataset.schema import CONFIGS, DEFAULT_CONFIG, SCHEMA_VERSION, SPLITS, Column
from dhd_labels.dataset.values import plain_text
from dhd_labels.errors import DhdError
from dhd_labels.report.table import Table, escape

TEMPLATE = "dataset_card.md.jinja"
TAGS = ("dhd-labels", "multi-agent", "message-selection", "trajectory-value", "arxiv:2608.14375")
TASKS = ("text-ranking",)
_SERVERS = ("role", "model id", "what its server says of itself", "answers")
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
)


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """The binding of one role: who played it and with which sampling settings (`max_tokens` per call)."""

    role: str
    engine: str
    model: str
    answered_as: str
    revision: str | None
    temperature: float
    top_p: float
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ProtocolFacts:
    """Sizes of the protocol: messages a pool, blocks a pool, full draws a block; what was replayed, in sentences."""

    pool_size: int
    blocks: int
    full_draws: int
    studies: Sequence[str]


@dataclass(frozen=True, slots=True)
class BenchmarkFacts:
    """What the licence of a benchmark allows; None is an unsettled question."""

    benchmark: str
    license: str
    train_allowed: bool | None
    commercial_use: bool | None
    redistribute_text: bool | None


@dataclass(frozen=True, slots=True)
class CardFacts:
    """Everything the card states.

    Attributes:
        title: human name of the data set (`pretty_name`).
        roles: who played each role.
        actor: model that wrote the messages.
        integrator: model that solved with and without them.
        protocol: sizes of pools, blocks and draws.
        noise: one sentence on what makes repeats differ, with the measured disagreement of identical inputs.
        seed: base seed of the run.
        benchmarks: licence of each benchmark.
        license: licence id of the whole, as the Hub spells it (`other` where there is none).
        tables: results to print, in order.
        exclusions: what was left out, and why.
        limits: known limits, one sentence each.
        rows: config name to split to number of rows; every config and split, zeros too.
        versions: package to version.
        extra_columns: columns beyond `schema.CONFIGS`, as given to `write_dataset`.
        digests: config name to the digest of its rows, a `write.RowDigest`.
        servers: (role, model id, what its server said of itself, answers); empty where no server was asked.
    """

    title: str
    roles: Sequence[RoleFacts]
    actor: str
    integrator: str
    protocol: ProtocolFacts
    noise: str
    seed: int
    benchmarks: Sequence[BenchmarkFacts]
    license: str
    tables: Sequence[Table]
    exclusions: Table
    limits: Sequence[str]
    rows: Mapping[str, Mapping[str, int]]
    versions: Mapping[str, str]
    extra_columns: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    servers: Sequence[tuple[str, str, str, int]] = ()


class Markdown(str):
    """Text that is Markdown already: the template prints it as it is."""

    __slots__ = ()


def render(facts: CardFacts) -> str:
    """Return the README of a data set.

    Raises:
        DhdError: a fact is not a plain value, or the header does not read back as it was written.
        jinja2.UndefinedError: the template names a field that there is not.
    """
    header = _header(metadata(facts))
    body = environment().from_string(template(TEMPLATE)).render(_fields(facts))
    return plain_text(f"---\n{header}\n---\n\n{body}")


def metadata(facts: CardFacts) -> dict[str, Any]:
    """Return the YAML header of the card as plain dictionaries, lists, text, numbers and truth values.

    Raises:
        DhdError: a value is of another kind, or the rows are of an unknown config.
    """
    if unknown := set(facts.rows) - set(CONFIGS):
        raise DhdError(f"The rows of the card must be of the configs {', '.join(CONFIGS)}, got {', '.join(unknown)}.")
    rows = {config: {split: facts.rows[config].get(split, 0) for split in SPLITS} for config in facts.rows}
    held = [config for config in CONFIGS if any(rows.get(config, {}).values())]
    data = {
        "license": facts.license,
        "language": ["en"],
        "pretty_name": facts.title,
        "size_categories": [_size(sum(sum(splits.values()) for splits in rows.values()))],
        "task_categories": TASKS,
        "tags": TAGS,
        "configs": [_config(config, rows[config], facts.digests.get(config)) for config in held],
        "dataset_info": [_info(config, facts.extra_columns.get(config, ())) for config in held],
        KEY: {"schema_version": SCHEMA_VERSION, "rows": rows},
    }
    return {key: plain(value, key) for key, value in data.items()}


def plain(value: Any, name: str) -> Any:
    """Return NumPy values, tuples and mappings as the plain Python values that YAML writes without tags.

    Raises:
        DhdError: the value is of any other kind.
    """
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        value = value.tolist()
    if isinstance(value, str):
        return plain_text(str(value))
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, Mapping):
        return {plain(key, name): plain(item, name) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item, name) for item in value]
    raise DhdError(f"The {name!r} of the card must be plain values, got {type(value).__name__} {repr(value)[:80]}.")


def _header(data: Mapping[str, Any]) -> str:
    """Return the YAML of the header, checked to read back as the same values with a safe loader."""
    import yaml
    from huggingface_hub import DatasetCardData

    text = str(DatasetCardData(**data).to_yaml())
    if yaml.safe_load(text) != data:
        raise DhdError("The YAML header of the card must read back as it was written; this is a bug, please report it.")
    return text


def _config(config: str, rows: Mapping[str, int], digest: str | None) -> dict[str, Any]:
    """Return the entry of a config.

    `datasets` caches a local folder by its name and by these entries, not by the content of its files. Without a digest
    of the rows in here, a rebuilt data set would be loaded with the rows of the old one.
    """
    content = {"description": f"rows sha256:{digest}"} if digest else {}
    files = [{"split": split, "path": data_path(config, split)} for split in SPLITS if rows[split]]
    default = {"default": True} if config == DEFAULT_CONFIG else {}
    return {"config_name": config, **default, **content, "data_files": files}


def _info(config: str, extra: Sequence[Column]) -> dict[str, Any]:
    return {"config_name": config, "features": [_feature(column) for column in (*CONFIGS[config], *extra)]}


def _feature(column: Column) -> dict[str, str]:
    kind = column.type
    return {"name": column.name, **({"list": kind[5:-1]} if kind.startswith("list<") else {"dtype": kind})}


def _size(rows: int) -> str:
    return next((name for limit, name in _SIZES if rows < limit), "10M<n<100M")


def template(name: str) -> str:
    """Return a template of `cards/`, from the installed package or from a checkout."""
    packaged = resources.files("dhd_labels") / "cards" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "cards" / name).read_text(encoding="utf-8")


def environment() -> jinja2.Environment:
    """Return an environment where an unknown field is an error and all that is printed is escaped."""
    return jinja2.Environment(  # noqa: S701  (HTML is escaped by `escape`, with Markdown)
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markdown | jinja2.Undefined) else escape(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _fields(facts: CardFacts) -> dict[str, Any]:
    p = facts.protocol
    return {
        "facts": facts,
        "protocol": p,
        "roles": _table(_roles(facts.roles)),
        "servers": _table(Table("", _SERVERS, tuple((*row[:3], str(row[3])) for row in facts.servers))),
        "rows": _table(_rows(facts.rows)),
        "columns": [(config, _columns(config, facts.extra_columns.get(config, ()))) for config in facts.rows],
        "results": [_table(table) for table in facts.tables],
        "exclusions": _table(facts.exclusions),
        "licences": _table(_licences(facts.benchmarks)),
        "versions": _table(Table("", ("package", "version"), tuple(sorted(facts.versions.items())))),
        "train_only_scored": [b.benchmark for b in facts.benchmarks if b.train_allowed is False],
        "textless": [b.benchmark for b in facts.benchmarks if not b.redistribute_text],
        "default_config": DEFAULT_CONFIG,
    }


def _table(table: Table) -> Markdown:
    return Markdown(table.to_markdown())


def _roles(roles: Sequence[RoleFacts]) -> Table:
    names = (
        "role",
        "engine",
        "model asked for",
        "model that answered",
        "revision",
        "temperature",
        "top-p",
        "max tokens",
    )
    rows = (
        (r.role, r.engine, r.model, r.answered_as, r.revision or "-", r.temperature, r.top_p, r.max_tokens)
        for r in roles
    )
    return Table("", names, tuple(tuple(map(str, row)) for row in rows))


def _rows(rows: Mapping[str, Mapping[str, int]]) -> Table:
    counts = ((config, *(str(splits.get(split, 0)) for split in SPLITS)) for config, splits in rows.items())
    return Table("", ("config", *SPLITS), tuple(counts))


def _licences(benchmarks: Sequence[BenchmarkFacts]) -> Table:
    names = ("benchmark", "licence", "training allowed", "commercial use", "text included")
    return Table(
        "",
        names,
        tuple(
            (
                b.benchmark,
                b.license,
                _word(b.train_allowed),
                _word(b.commercial_use),
                _word(b.redistribute_text),
            )
            for b in benchmarks
        ),
    )


def _word(value: bool | None) -> str:
    return "unsettled" if value is None else "yes" if value else "no"


def _columns(config: str, extra: Sequence[Column]) -> Markdown:
    """Return the column table of a config. Column docs are our own Markdown and stay as they are."""
    lines = [f"| `{c.name}` | {c.type} | {c.doc.replace('|', chr(92) + '|')} |" for c in (*CONFIGS[config], *extra)]
    return Markdown("\n".join(("| column | type | meaning |", "| --- | --- | --- |", *lines)))
