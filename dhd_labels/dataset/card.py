"""The data set card: typed facts in, a README with a YAML header out.

Whatever the template prints is escaped unless this module made it as Markdown, so text of users and models
cannot act. The header is written by `huggingface_hub.DatasetCardData` from plain Python values and read
back before it is returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from dhd_labels.dataset.header import KEY, Files, single_files
from dhd_labels.dataset.licences import OTHER, Overall, overall
from dhd_labels.dataset.merge import seal
from dhd_labels.dataset.metadata import check_metadata
from dhd_labels.dataset.results import CardFigure, Results
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
    """What the licence of a benchmark allows; None is an unsettled question.

    `attribution` says whom to name, `canary` whether a string that marks test data must stay with the rows.
    """

    benchmark: str
    license: str
    train_allowed: bool | None
    commercial_use: bool | None
    redistribute_text: bool | None
    attribution: str | None = None
    canary: bool = False


@dataclass(frozen=True, slots=True)
class RunFacts:
    """How the rows of one run were made.

    Attributes:
        run: name of the run in the data set's column `run`: the config's name and the start of its digest.
        roles: who played each role.
        actor: model that wrote the messages.
        integrator: model that solved with and without them.
        protocol: sizes of pools, blocks and draws.
        noise: one sentence on what makes repeats differ, with the measured disagreement of identical inputs.
        seed: base seed of the run; None where nobody knows.
        servers: (role, model id, what its server said of itself, answers); empty where no server was asked.
    """

    run: str
    roles: Sequence[RoleFacts]
    actor: str
    integrator: str
    protocol: ProtocolFacts
    noise: str
    seed: int | None
    servers: Sequence[tuple[str, str, str, int]] = ()


@dataclass(frozen=True, slots=True)
class CardFacts:
    """Everything the card states.

    Attributes:
        title: human name of the data set (`pretty_name`).
        runs: the runs that the rows come from.
        benchmarks: licence of each benchmark; several lines for one whose problems have different licences.
        tables: what is counted while the rows are written, or what is known of simulated ones.
        results: tables with intervals, and figures.
        exclusions: what was left out, and why.
        limits: known limits, one sentence each.
        rows: config name to split to number of rows; every config and split, zeros too.
        versions: package to version.
        extra_columns: columns beyond `schema.CONFIGS`, as given to `write_dataset`.
        digests: config name to a digest of its rows, which changes whenever they do.
        files: config name to split to paths; None for one file a split.
        sha256: path to the SHA-256 of the file; without it, loading cannot tell an edited file.
    """

    title: str
    runs: Sequence[RunFacts]
    benchmarks: Sequence[BenchmarkFacts]
    tables: Sequence[Table]
    exclusions: Table
    limits: Sequence[str]
    rows: Mapping[str, Mapping[str, int]]
    versions: Mapping[str, str]
    extra_columns: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    files: Files | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    results: Results = field(default_factory=Results)

    @property
    def overall(self) -> Overall:
        """Return the licence of the whole: the strictest one included."""
        return overall(benchmark.license for benchmark in self.benchmarks)


class Markdown(str):
    """Text that is Markdown already: the template prints it as it is."""

    __slots__ = ()


def render(facts: CardFacts) -> str:
    """Return the README of a data set.

    Raises:
        DhdError: a fact is not a plain value, or the header does not read back as it was written.
        jinja2.UndefinedError: the template names a field that there is not.
    """
    header = metadata(facts)
    body = environment().from_string(template(TEMPLATE)).render(_fields(facts))
    check_metadata(header)
    card = seal(header, plain_text(body))
    _check_header(card)
    return card


def licence_text(facts: CardFacts) -> str | None:
    """Return the text of `LICENSE.md`, which the Hub links where the card's licence is `other`; None elsewhere."""
    if facts.overall.license != OTHER:
        return None
    says = "Each row names its own in `license`, with `train_allowed`, `commercial_use` and `attribution`."
    title = f"# Licences of the rows of {escape(facts.title)}"
    table = _table(_licences(facts.benchmarks))
    return plain_text(f"{title}\n\nNo single licence covers all rows. {says}\n\n{table}\n")


def metadata(facts: CardFacts) -> dict[str, Any]:
    """Return the YAML header of the card as plain dictionaries, lists, text, numbers and truth values.

    Raises:
        DhdError: a value is of another kind, or the rows are of an unknown config.
    """
    if unknown := set(facts.rows) - set(CONFIGS):
        raise DhdError(f"The rows of the card must be of the configs {', '.join(CONFIGS)}, got {', '.join(unknown)}.")
    rows = {config: {split: facts.rows[config].get(split, 0) for split in SPLITS} for config in facts.rows}
    files = single_files(rows) if facts.files is None else facts.files
    held = [config for config in CONFIGS if any(rows.get(config, {}).values())]
    named = {"license_name": facts.overall.name, "license_link": facts.overall.link}
    data = {
        "license": facts.overall.license,
        **{name: value for name, value in named.items() if value},
        "language": ["en"],
        "pretty_name": facts.title,
        "size_categories": [_size(sum(sum(splits.values()) for splits in rows.values()))],
        "task_categories": TASKS,
        "tags": TAGS,
        "configs": [_config(config, files[config], facts.digests.get(config)) for config in held],
        "dataset_info": [_info(config, facts.extra_columns.get(config, ())) for config in held],
        KEY: {"schema_version": SCHEMA_VERSION, "rows": rows, **({"sha256": facts.sha256} if facts.sha256 else {})},
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


def _check_header(card: str) -> None:
    """Refuse a card that the Hub's client would read or write in another way than it was written."""
    from huggingface_hub import DatasetCard

    if str(DatasetCard(card)) != card:
        raise DhdError("The YAML header of the card must read back as it was written; this is a bug, please report it.")


def _config(config: str, paths: Mapping[str, tuple[str, ...]], digest: str | None) -> dict[str, Any]:
    """Return the entry of a config.

    `datasets` caches a local folder by its name and by these entries, not by the content of its files. Without a digest
    of the rows in here, a rebuilt data set would be loaded with the rows of the old one.
    """
    content = {"description": f"rows sha256:{digest}"} if digest else {}
    files = [{"split": split, "path": _path(paths[split])} for split in SPLITS if paths.get(split)]
    default = {"default": True} if config == DEFAULT_CONFIG else {}
    return {"config_name": config, **default, **content, "data_files": files}


def _path(paths: tuple[str, ...]) -> str | list[str]:
    return paths[0] if len(paths) == 1 else list(paths)


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
    return {
        "facts": facts,
        "pool_size": facts.runs[0].protocol.pool_size,
        "runs": [(run, _table(_roles(run.roles)), _table(_servers(run))) for run in facts.runs],
        "rows": _table(_rows(facts.rows)),
        "columns": [(config, _columns(config, facts.extra_columns.get(config, ()))) for config in facts.rows],
        "results": [_table(table) for table in facts.results.tables],
        "figures": [_figure(figure) for figure in facts.results.figures],
        "tallies": [_table(table) for table in facts.tables],
        "exclusions": _table(facts.exclusions),
        "licences": _table(_licences(facts.benchmarks)),
        "overall": facts.overall,
        "versions": _table(Table("", ("package", "version"), tuple(sorted(facts.versions.items())))),
        "train_only_scored": _names(facts, lambda b: b.train_allowed is False),
        "non_commercial": _names(facts, lambda b: b.commercial_use is False),
        "textless": _names(facts, lambda b: not b.redistribute_text),
        "canaries": _names(facts, lambda b: b.canary),
        "default_config": DEFAULT_CONFIG,
        "software": facts.versions.get("dhd-labels", "of the build"),
    }


def _names(facts: CardFacts, which: Callable[[BenchmarkFacts], bool]) -> list[str]:
    return list(dict.fromkeys(b.benchmark for b in facts.benchmarks if which(b)))


def _servers(run: RunFacts) -> Table:
    return Table("", _SERVERS, tuple((*row[:3], str(row[3])) for row in run.servers))


def _table(table: Table) -> Markdown:
    return Markdown(table.to_markdown())


def _figure(figure: CardFigure) -> Markdown:
    """Return a figure by its path in the data set, with its values as text for who cannot see it."""
    return Markdown(f"![{escape(figure.alt)}]({figure.path})")


def _roles(roles: Sequence[RoleFacts]) -> Table:
    """Return who played each role. A model that answered under the name that was asked for is named once."""
    columns = ("role", "engine", "model", "revision", "temperature", "top-p", "max tokens")
    rows = (
        (r.role, r.engine, _model(r), _short(r.revision), r.temperature, r.top_p, r.max_tokens) for r in roles
    )  # fmt: skip
    return Table("", columns, tuple(tuple(map(str, row)) for row in rows))


def _model(role: RoleFacts) -> str:
    return role.model if role.answered_as == role.model else f"{role.model} (answers as {role.answered_as})"


def _short(revision: str | None) -> str:
    """Return a revision as people write it: the digest of a commit by its start."""
    if revision is None:
        return "not stated"
    return revision[:12] if re.fullmatch("[0-9a-f]{40,64}", revision) else revision


def _rows(rows: Mapping[str, Mapping[str, int]]) -> Table:
    counts = ((config, *(str(splits.get(split, 0)) for split in SPLITS)) for config, splits in rows.items())
    return Table("", ("config", *SPLITS), tuple(counts))


def _licences(benchmarks: Sequence[BenchmarkFacts]) -> Table:
    names = ("benchmark", "licence", "training allowed", "commercial use", "text included", "canary", "attribution")
    return Table("", names, tuple(_licence(b) for b in benchmarks))


def _licence(b: BenchmarkFacts) -> tuple[str, ...]:
    words = (*map(_word, (b.train_allowed, b.commercial_use, b.redistribute_text)), "yes" if b.canary else "no")
    return (b.benchmark, b.license, *words, b.attribution or "none asked for")


def _word(value: bool | None) -> str:
    return "unsettled" if value is None else "yes" if value else "no"


def _columns(config: str, extra: Sequence[Column]) -> Markdown:
    """Return the column table of a config. Column docs are our own Markdown and stay as they are."""
    lines = [f"| `{c.name}` | {c.type} | {_meaning(c)} |" for c in (*CONFIGS[config], *extra)]
    return Markdown("\n".join(("| column | type | meaning |", "| --- | --- | --- |", *lines)))


def _meaning(column: Column) -> str:
    reason = f"; a null says why in `{column.reason}`" if column.reason else ""
    return f"{column.doc}{reason}".replace("|", "\\|")
