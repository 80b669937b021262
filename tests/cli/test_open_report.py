"""The report in a browser: what the server of this machine gives, and to whom."""

import http.client
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from profkit.cli import main
from profkit.cli.open_report import serving
from tests.waiting import LIMIT_S


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with results, in which the commands are typed."""
    files = {
        "results/report.html": "the report",
        "results/runs/r/timeline/torch_profiler.trace.json.gz": "\x1f packed",
        "results/runs/r/analyze/steps.json": "{}",
        "results/.profkit/last.json": "[]",
        "secret.txt": "secret",
        "mine.json": "[1]",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "results/link.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def served(file=None):
    """Yield a function that asks the server for a path, with the token or as it stands."""
    with serving(file) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()

        def ask(path, *, host=server.host, method="GET", token=True):
            connection = http.client.HTTPConnection(server.host, timeout=LIMIT_S)
            target = f"/{server.token}/{path}" if token else path
            connection.request(method, target, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        yield ask
        server.shutdown()
        thread.join()


def test_files_of_the_results_are_served_and_timelines_are_handed_to_perfetto():
    timeline = "runs/r/timeline/torch_profiler.trace.json.gz"
    with served() as ask:
        assert ask("report.html") == (200, "the report")
        assert ask("report.html", method="HEAD") == (200, "")
        assert ask("runs/r/analyze/steps.json") == (200, "{}")
        status, page = ask(timeline)
        assert status == 200
        assert "https://ui.perfetto.dev" in page
        assert ask(f"{timeline}?raw") == (200, "\x1f packed")


@pytest.mark.parametrize(
    "path",
    [
        *("", "runs", "runs/", "../secret.txt", "%2e%2e/secret.txt", "runs/../../secret.txt"),
        *("/secret.txt", "link.txt", ".profkit/last.json", "nothing", "a%00b", "runs/r/../.."),
    ],
)
def test_nothing_else_is_served(path):
    with served() as ask:
        assert ask(path)[0] == 404


def test_requests_without_the_secret_or_by_another_name_get_nothing():
    with served() as ask:
        assert ask("/report.html", token=False)[0] == 404
        assert ask("/x/report.html", token=False)[0] == 404
        assert ask("report.html", host="evil.example:80")[0] == 403
        assert ask("report.html", host="localhost")[0] == 403
        assert ask("report.html", method="POST")[0] == 501


def test_a_trace_from_elsewhere_is_the_only_file_of_its_folder_that_is_served(folder):
    with served(Path("mine.json")) as ask:
        assert "https://ui.perfetto.dev" in ask("mine.json")[1]
        assert ask("mine.json?raw") == (200, "[1]")
        assert ask("secret.txt")[0] == 404
    with served(folder / "results/runs/r/analyze/steps.json") as ask:
        assert ask("runs/r/analyze/steps.json") == (200, "{}")


def test_two_servers_have_secrets_of_their_own_and_this_machine_alone_reaches_them():
    with serving(None) as one, serving(None) as other:
        assert one.token != other.token
        assert one.server_address[0] == "127.0.0.1"


def test_without_a_report_there_is_nothing_to_open(folder, capsys):
    (folder / "results/report.html").unlink()
    assert main(["open"]) == 1
    assert "profkit run makes it" in capsys.readouterr().err


def test_the_address_is_printed_and_an_interrupt_ends_the_server():
    process = subprocess.Popen(
        [sys.executable, "-m", "profkit", "open", "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    address = urlsplit(process.stdout.readline().strip())
    connection = http.client.HTTPConnection(address.netloc, timeout=LIMIT_S)
    connection.request("GET", address.path)
    assert connection.getresponse().read() == b"the report"
    process.send_signal(2)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
