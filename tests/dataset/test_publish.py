from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dhd_labels.dataset.merge import addressed
from dhd_labels.dataset.publish import push
from dhd_labels.errors import DhdError
from tests.dataset.samples import child, row, rows, write
from tests.hub import READ_TOKEN, HubStub, Repo
from tests.hub.client import Clients
from tests.hub.faults import Fault


@pytest.mark.parametrize("lfs_above", [1 << 30, 1000], ids=["regular", "lfs"])
def test_push_makes_one_private_commit_and_loads_back_equal(
    hub: HubStub, client: Clients, labels: Path, lfs_above: int
) -> None:
    hub.lfs_above, hub.lfs_suffixes = lfs_above, ()
    (labels / "secret.txt").write_text("not part of the data set")
    out = child(
        client,
        labels,
        """
result = push(folder, "org/labels")
print(result.commit, result.url, len(result.files))
for config in ("messages", "replays", "problems"):
    for split in ("train", "validation", "test"):
        here = load_frame(folder, config, (split,))
        there = load_frame(f"org/labels@{result.commit}", config, (split,))
        assert here.equals(there), (config, split)
""",
    )
    repo = hub.repos["org/labels"]
    assert out.split() == [repo.refs["main"], f"{hub.endpoint}/datasets/org/labels", "9"]
    assert repo.private
    assert hub.commits("org/labels") == 1
    assert bool(repo.lfs) == (lfs_above == 1000)
    pushed = repo.commits[repo.refs["main"]]
    assert "secret.txt" not in pushed
    sent = {path: (labels / path).read_bytes() for path in pushed if path != ".gitattributes"}
    sent["README.md"] = addressed(sent["README.md"].decode(), "org/labels").encode()
    assert {path: pushed[path] for path in sent} == sent


def test_public_branch_pull_request_and_repeated_push(hub: HubStub, client: Clients, labels: Path) -> None:
    out = child(
        client,
        labels,
        """
attempt(lambda: push(folder, "org/open", private=False).commit)
attempt(lambda: push(folder, "org/open", private=False).commit)
attempt(lambda: push(folder, "org/open").commit)
attempt(lambda: push(folder, "org/branch", revision="v1").commit)
attempt(lambda: push(folder, "org/pr", create_pr=True).url)
attempt(lambda: push(folder, "org/pr", create_pr=True, revision="v1").url)
attempt(lambda: load_frame("org/branch", "messages"))
attempt(lambda: len(load_frame("org/branch@v1", "messages")))
attempt(lambda: load_frame("org/branch@v2", "messages"))
attempt(lambda: load_frame("org/none", "messages"))
""",
    ).splitlines()
    opened = hub.repos["org/open"]
    assert not opened.private
    assert out[0] == out[1] == opened.refs["main"]
    assert hub.commits("org/open") == 1
    assert out[2].startswith("DhdError: The data set 'org/open' is public already")
    assert out[3] == hub.repos["org/branch"].refs["v1"] != hub.repos["org/branch"].refs["main"]
    assert out[4].endswith("/datasets/org/pr/discussions/1")
    assert len(hub.repos["org/pr"].commits[hub.repos["org/pr"].refs["main"]]) == 1
    assert "--create-pr cannot go with --revision 'v1'" in out[5]
    assert "no README.md" in out[6]
    assert out[7] == "6"
    assert "no such revision" in out[8]
    assert "no such data set" in out[9]


def test_a_second_push_replaces_columns_and_removes_stale_rows(hub: HubStub, client: Clients, labels: Path) -> None:
    """huggingface/datasets#8608: the card is that of push 2; a split that emptied does not stay behind."""
    write(
        labels.parent / "second",
        {"messages": [row("messages", n_blocks=1)], "replays": rows()["replays"][:2]},
    )
    out = child(
        client,
        labels,
        """
push(folder, "org/labels")
push(folder.parent / "second", "org/labels")
print(len(load_frame("org/labels", "messages")), len(load_frame("org/labels", "replays", ("validation",))))
attempt(lambda: load_frame("org/labels", "problems"))
""",
    ).splitlines()
    assert out[0] == "1 0"
    assert "has no config 'problems'; it has messages, replays" in out[1]
    assert hub.commits("org/labels") == 2
    files = hub.repos["org/labels"].commits[hub.repos["org/labels"].refs["main"]]
    assert sorted(path for path in files if path.endswith(".parquet")) == [
        "messages/train-all-00000.parquet",
        "replays/train-all-00000.parquet",
    ]


def test_what_comes_back_different_is_an_error(hub: HubStub, client: Clients, labels: Path) -> None:
    tables = rows()
    tables["messages"][1]["n_blocks"] = 3  # the files of 3 and 4 have the same size, which the Hub's tree gives
    write(labels, tables)
    tables["messages"][1]["n_blocks"] = 4
    other = write(labels.parent / "other", tables)
    path = "messages/train-all-00000.parquet"
    hub.corrupt[path] = (other / path).read_bytes()
    out = child(client, labels, 'attempt(lambda: push(folder, "org/labels"))')
    assert "config 'messages' of 'org/labels'" in out
    assert "split train, row 1, column 'n_blocks': 4, not 3" in out


def test_tokens(hub: HubStub, client: Clients, labels: Path) -> None:
    both = 'attempt(check_token)\nattempt(lambda: push(folder, "org/labels"))'
    assert child(client, labels, "attempt(check_token)") == "stub-user\n"
    hub.requests.clear()
    missing = child(client, labels, both, token=None)
    assert missing.count("DhdError: Pushing needs a Hub token, and there is none. Log in with `hf auth login`") == 2
    assert hub.requests == []
    wrong = child(client, labels, both, token="hf_wrongwrongwrong")
    assert wrong.count("DhdError: Checking the Hub token failed: the token is not valid (401)") == 2
    strange = child(client, labels, both, token="hf_naïve\x01token")
    assert strange.count("DhdError: Checking the Hub token failed") == 2
    assert hub.repos == {}


def test_a_token_without_the_right_to_write(hub: HubStub, client: Clients, labels: Path) -> None:
    out = child(client, labels, "attempt(check_token)", token=READ_TOKEN)
    assert "may only read" in out
    hub.read_only = True
    out = child(client, labels, 'attempt(lambda: push(folder, "org/labels"))')
    assert "the token may not do this (403" in out
    assert hub.repos == {}


def test_an_unreachable_hub(hub: HubStub, client: Clients, labels: Path) -> None:
    hub.faults.add(Fault(".*", "", times=100, cut="upload"))
    code = 'attempt(lambda: check_token("http://127.0.0.1:9"))\nattempt(lambda: load_frame("org/labels", "messages"))'
    out = child(client, labels, code)
    assert out.count("cannot be reached") == 2
    assert "there is no such folder here" in out


def test_a_data_set_of_others_is_not_read(hub: HubStub, client: Clients, labels: Path) -> None:
    hub.repos["org/other"] = Repo(private=False)
    hub.repos["org/other"].commit("main", {"README.md": b"---\nlicense: mit\n---\n"})
    out = child(client, labels, 'attempt(lambda: load_frame("org/other", "messages"))', token=None)
    assert "The data set 'org/other' was not made by dhd-labels" in out


def test_a_dry_run_without_a_token_asks_nobody(
    hub: HubStub, client: Clients, labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = child(client, labels, 'result = push(folder, "org/labels", dry_run=True)\nprint(result)', token=None)
    assert "commit=None" in out and "no token, so the Hub was not asked" in out
    assert hub.requests == []
    (labels / "secret.txt").write_text("x")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    for file in push(labels, "org/labels", dry_run=True).files:
        data = (labels / file.path).read_bytes()
        assert (file.size, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert file.path != "secret.txt"


@pytest.mark.parametrize(
    "repo",
    ["labels", "a/b/c", "org/", "/labels", "org/la bels", "org/..", "-o/x", "org/x@v1", "org/x.git", "o--g/x", ""],
)
def test_bad_repository_ids_are_refused(labels: Path, repo: str) -> None:
    with pytest.raises(DhdError, match="The repository must be 'org/name'"):
        push(labels, repo, dry_run=True)


def test_only_data_sets_of_ours_are_pushed(tmp_path: Path, labels: Path) -> None:
    with pytest.raises(DhdError, match="There is no folder"):
        push(tmp_path / "none", "org/labels", dry_run=True)
    (labels / "messages" / "train-00001-of-00002.parquet").write_bytes(b"x")
    with pytest.raises(DhdError, match="must list every Parquet file, but not messages/train-00001"):
        push(labels, "org/labels", dry_run=True)
