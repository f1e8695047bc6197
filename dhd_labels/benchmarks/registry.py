"""The registry: where each benchmark comes from, how large it is and what its licence allows. Reads no file.

Sources are pinned to a revision. `None` for a permission means that the upstream sources contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dhd_labels.errors import DhdError, did_you_mean

QUICKSTART = "quickstart"
ORACLE = "oracle"
JSONL = "jsonl"
OMNI_MATH_2 = "omni-math-2"
JEEBENCH = "jeebench"
SCIBENCH = "scibench"
LAB_BENCH = "lab-bench"
MASCQA = "mascqa"
PAPER_BENCHMARKS = (OMNI_MATH_2, JEEBENCH, SCIBENCH, LAB_BENCH, MASCQA)
"""The five benchmarks of the paper, in its order; 6,666 problems."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a benchmark is published.

    Attributes:
        host: `hub` is a data set repository of the Hugging Face Hub, `github` a repository there.
        repo: `owner/name`.
        revision: commit that the readers were written against.
        files: what is fetched; patterns on the Hub, paths on GitHub.
    """

    host: Literal["hub", "github"]
    repo: str
    revision: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        site = "https://huggingface.co/datasets" if self.host == "hub" else "https://github.com"
        return f"{site}/{self.repo} at {self.revision}"


@dataclass(frozen=True, slots=True)
class RegistryFacts:
    """What is known of a benchmark without its files.

    Attributes:
        name: canonical name.
        aliases: other accepted spellings; capitals, blanks and underscores never matter.
        rows: rows of the file as it is published; None where the file is the user's.
        rows_usable: problems that the paper analyses: after the benchmark's own filter, without repeated rows. A
            reader may leave out a few more (void keys, blank references) and counts them.
        median_prompt_characters: median length of a problem as it is prompted, options included.
        upstream: pinned source; None where there is none.
        license: licence id as the Hub spells it.
        attribution: whom to name, and where.
        train_allowed: whether a model may be trained on the rows.
        commercial_use: whether rows may be used commercially; None is unsettled.
        redistribute_text: whether problem text goes into a published data set by default.
        text_on_request: whether the licence lets the text be published when a build asks for it (share-alike).
        canary: whether rows carry a canary string, which must stay with them and out of every prompt.
    """

    name: str
    aliases: tuple[str, ...]
    rows: int | None
    rows_usable: int | None
    median_prompt_characters: int | None
    upstream: Upstream | None
    license: str
    attribution: str
    train_allowed: bool
    commercial_use: bool | None
    redistribute_text: bool
    text_on_request: bool = False
    canary: bool = False


_OURS = "The dhd-labels developers"
_BOOKS = ("atkins", "calculus", "chemmc", "class", "diff", "fund", "matter", "quan", "stat", "thermo")

_REGISTRY = {
    entry.name: entry
    for entry in (
        RegistryFacts(QUICKSTART, (), 56, 56, 54, None, "apache-2.0", _OURS, True, True, True),
        RegistryFacts(
            OMNI_MATH_2,
            ("omni-math-2-filtered", "omnimath2", "omni-math2"),
            rows=4428,
            rows_usable=4181,
            median_prompt_characters=224,
            upstream=Upstream(
                "hub", "martheballon/Omni-MATH-2", "1c10fd492252173c73468badf6dc1804225eb5bb", ("*.jsonl",)
            ),
            # The card says so; the sources of the problems have terms of their own, and other papers disagree.
            license="apache-2.0",
            attribution="Ballon, Algaba, Verbeken, Ginis, arXiv 2601.19532; Gao et al., arXiv 2410.07985",
            train_allowed=True,
            commercial_use=None,
            redistribute_text=False,
        ),
        RegistryFacts(
            JEEBENCH,
            ("jee-bench", "jee"),
            rows=515,
            rows_usable=515,
            median_prompt_characters=820,
            upstream=Upstream(
                "hub", "daman1209arora/jeebench", "d070d1113ce365df05903763a2017ec2d0d56118", ("test.json",)
            ),
            license="mit",
            attribution="Copyright (c) 2023 DAIR Group, IIT Delhi; Arora, Singh, Mausam, EMNLP 2023",
            train_allowed=True,
            commercial_use=True,
            redistribute_text=True,
        ),
        RegistryFacts(
            SCIBENCH,
            ("sci-bench",),
            rows=580,
            rows_usable=580,
            median_prompt_characters=586,
            # The copy on the Hub is older: two of its books were corrected later.
            upstream=Upstream(
                "github",
                "mandyyyyii/scibench",
                "e14e0ca3d3db0f02928a18d435b9c3d15656a7c5",
                tuple(f"dataset/original/{book}.json" for book in _BOOKS),
            ),
            license="mit",
            attribution="Copyright (c) 2023 Xiaoxuan Wang; Wang et al., ICML 2024",
            train_allowed=True,
            commercial_use=True,
            redistribute_text=True,
        ),
        RegistryFacts(
            LAB_BENCH,
            ("labbench", "lab-bench-public"),
            rows=741,
            rows_usable=741,
            median_prompt_characters=1762,
            upstream=Upstream(
                "hub",
                "futurehouse/lab-bench",
                "5c77cec648430f30611808808861eb86f81d5eaa",
                ("ProtocolQA/*", "SeqQA/*", "CloningScenarios/*"),
            ),
            license="cc-by-sa-4.0",
            attribution="FutureHouse; Laurent et al., arXiv 2407.10362",
            train_allowed=False,
            commercial_use=True,
            redistribute_text=False,
            text_on_request=True,
            canary=True,
        ),
        RegistryFacts(
            MASCQA,
            ("masc-qa",),
            rows=650,
            rows_usable=649,
            median_prompt_characters=686,
            upstream=Upstream(
                "github", "M3RG-IITD/MaScQA", "f524889b9cbcec15f4d6216a3c66f9e6c57f0712", ("notebooks/all_QA.xlsx",)
            ),
            license="cc-by-nc-sa-4.0",
            attribution="Zaki, Jayadeva, Mausam, Krishnan, Digital Discovery 2024, doi 10.1039/D3DD00188A",
            train_allowed=True,
            commercial_use=False,
            redistribute_text=False,
            text_on_request=True,
        ),
        # Rows of the user's own file may say otherwise one by one.
        RegistryFacts(JSONL, (), None, None, None, None, "unknown", "", True, False, True),
        RegistryFacts(ORACLE, (), 50, 50, 42, None, "apache-2.0", _OURS, True, True, True),
    )
}

NAMES = tuple(_REGISTRY)
_SPELLINGS = {alias: entry.name for entry in _REGISTRY.values() for alias in (entry.name, *entry.aliases)}


def resolve_name(name: str) -> str:
    """Return the canonical name of a benchmark; capitals, blanks, underscores and the paper's spellings are accepted.

    Raises:
        DhdError: no benchmark is called so.
    """
    plain = "-".join(name.lower().replace("_", " ").replace("-", " ").replace("(", " ").replace(")", " ").split())
    if plain not in _SPELLINGS:
        raise DhdError(f"The benchmark {name!r} is unknown. {did_you_mean(plain, NAMES)}")
    return _SPELLINGS[plain]


def facts(name: str) -> RegistryFacts:
    """Return what the registry knows of a benchmark, by any accepted spelling. Needs no file and no network.

    Raises:
        DhdError: no benchmark is called so.
    """
    return _REGISTRY[resolve_name(name)]
