"""The page of a pull request: everything in order, nothing from outside, pictures from the ledger."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from pathlib import Path

import pytest

from bot.forge.client import open_forge
from bot.localhub import browser
from bot.localhub.diffs import diff_lines
from bot.localhub.page import render_page, screenshot
from bot.localhub.server import Hub
from tests.localhub.conftest import BOT

LEDGER = "kernelwright/ledger"


def png(size: int = 2) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x20\x60\xc0" * size) * size)
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def ledger(hub: Hub, name: str, content: bytes) -> str:
    sha = hub.push(BOT, LEDGER, {f"campaigns/c1/plots/{name}": content}, "plots\n")
    return f"{hub.server_url}/{hub.repo}/blob/{sha}/campaigns/c1/plots/{name}?raw=true"


def in_order(page: str, *parts: str) -> bool:
    places = [page.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_the_whole_conversation_in_order(hub: Hub) -> None:
    forge = open_forge(
        hub.url, hub.repo, hub.token(BOT, {"read", "comment", "status"}), own_login=BOT, own_id=hub.user_id(BOT)
    )
    asked = hub.comment("mira", 1, "/optimize a")
    forge.react(asked, "rocket")
    forge.post_comment(1, "**v1 is 1.4x** (estimated).")
    hub.review("mira", 1, "APPROVE", "Reads _well_.")
    hub.push(BOT, "tune", {"a.py": b"a = 3\n"}, "[Perf] a: 1.4x\n\nWhy it is faster.\n\nKernelwright-Campaign: c1\n")
    forge.set_status(forge.pull(1).head_sha, "success", "kernelwright/a", "v1 pushed")
    forge.post_comment(1, "Pushed.")
    page = render_page(hub, 1)
    assert in_order(
        page,
        'Tune a <span class="number">#1</span>',
        "Open",
        "v1 pushed",
        "Could it be faster, too?",
        "/optimize a",
        "🚀 1",
        "<strong>v1 is 1.4x</strong>",
        "approved these changes",
        "Reads <em>well</em>.",
        "pushed 1 commit",
        "[Perf] a: 1.4x",
        "Kernelwright-Campaign: c1",
        '<tr class="del"><td class="no">1</td><td class="no"></td><td class="text">a = 2</td></tr>',
        '<tr class="add"><td class="no"></td><td class="no">1</td><td class="text">a = 3</td></tr>',
        "<p>Pushed.</p>",
    )


def test_a_closed_and_a_draft_pull_request_say_so(hub: Hub) -> None:
    hub.push("dana", "other", {"b.py": b"b = 2\n"}, "Other\n")
    draft = hub.open_pull("dana", "other", "main", "Other", draft=True)
    assert 'class="state draft"' in render_page(hub, draft)
    hub.close_pull(1)
    page = render_page(hub, 1)
    assert 'class="state closed"' in page
    assert "closed at" in page


def test_a_rewritten_branch_says_so(hub: Hub) -> None:
    hub.push("dana", "tune", {"a.py": b"a = 3\n"}, "More\n")
    before = hub.history.heads()["refs/pull/1/head"]
    hub.history.set_ref("refs/heads/tune", hub.history.heads()["refs/heads/main"])
    hub.push("dana", "tune", {"a.py": b"a = 4\n"}, "Again\n")
    assert hub.history.heads()["refs/pull/1/head"] != before
    assert "after rewriting the branch" in render_page(hub, 1)


def test_nothing_is_loaded_from_outside(hub: Hub) -> None:
    hub.comment("lee", 1, '![x](https://evil.example/a.png)\n\n<img src="//evil.example/b.png">')
    page = render_page(hub, 1)
    assert "default-src 'none'" in page
    assert set(re.findall(r'(?:src|srcset|href)="([^"#][^"]{0,10})', page)) <= {"data:image/"}
    assert "<script" not in page and "<link" not in page and "url(" not in page


def test_hostile_words_stay_words_everywhere(hub: Hub) -> None:
    evil = "<script>alert(1)</script>"
    hub.push("dana", "evil", {"a.py": f"{evil}\n".encode()}, f"{evil}\n")
    number = hub.open_pull("dana", "evil", "main", evil, evil)
    hub.push("dana", "evil", {"a.py": f"{evil}{evil}\n".encode()}, f"{evil}\n\n{evil}\n")
    hub.comment("lee", number, f"</div></article></main></body>{evil}")
    hub.review("mira", number, "COMMENT", evil)
    head = hub.history.heads()["refs/heads/evil"]
    forge = open_forge(hub.url, hub.repo, hub.token("mira", {"read", "status"}))
    forge.set_status(head, "error", evil, evil)
    page = render_page(hub, number)
    assert "<script" not in page
    assert page.count("</main>") == page.count("</body>") == 1
    assert page.count("<article") == page.count("</article>")
    assert page.count("<div") == page.count("</div>")


def test_a_plot_of_the_ledger_is_inlined_for_light_and_dark(hub: Hub) -> None:
    light, dark = ledger(hub, "light.png", png(2)), ledger(hub, "dark.png", png(3))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    hub.comment("mira", 1, f'<picture>{source}<img alt="speed" src="{light}"></picture>')
    page = render_page(hub, 1)
    assert f"data:image/png;base64,{base64.b64encode(png(2)).decode()}" in page
    assert f'srcset="data:image/png;base64,{base64.b64encode(png(3)).decode()}"' in page


def test_a_plot_is_found_by_its_commit_after_the_branch_moved_and_from_another_host(hub: Hub) -> None:
    address = ledger(hub, "plot.png", png(2))
    ledger(hub, "plot.png", png(5))
    path = address.removeprefix(hub.server_url)
    for written in (f"https://github.example{path}", f"../..{path.removeprefix('/sample/kernels')}"):
        hub.comment("mira", 1, f"![plot]({written})")
    assert render_page(hub, 1).count(base64.b64encode(png(2)).decode()) == 2


@pytest.mark.parametrize(
    "content", [b"<svg onload='alert(1)'/>", b"GIF89a...", b"", b"\x89PNG\r\n\x1a\n" + b"\0" * 2**21]
)
def test_what_is_no_small_png_or_jpeg_is_not_inlined(hub: Hub, content: bytes) -> None:
    hub.comment("mira", 1, f"![plot]({ledger(hub, 'plot.png', content)})")
    page = render_page(hub, 1)
    assert "data:image" not in page
    assert "image: plot" in page


@pytest.mark.parametrize(
    "tail",
    ["{zero}/a.png", "main/a.png", "{sha}/no.png", "{sha}/../../../etc/passwd", "{sha}/-x", "{sha}/", "{sha}%00/a.png"],
)
def test_addresses_that_lead_nowhere(hub: Hub, tail: str) -> None:
    sha = hub.push(BOT, LEDGER, {"a.png": png()}, "plot\n")
    path = tail.format(zero="0" * 40, sha=sha)
    hub.comment("mira", 1, f'<img alt="plot" src="{hub.server_url}/{hub.repo}/blob/{path}">')
    page = render_page(hub, 1)
    assert "data:image" not in page
    assert "image: plot" in page


def test_links_to_this_hub_lead_to_the_page_or_nowhere(hub: Hub) -> None:
    head = hub.push(BOT, "tune", {"a.py": b"a = 3\n"}, "More\n")
    base = f"{hub.server_url}/{hub.repo}"
    hub.comment("mira", 1, f"[here]({base}/commit/{head}) [gone]({base}/tree/main) [away](https://triton.example/docs)")
    page = render_page(hub, 1)
    assert f'href="#commit-{head}"' in page and f'id="commit-{head}"' in page
    assert "<span>gone</span>" in page
    assert 'href="https://triton.example/docs" rel="nofollow noopener noreferrer"' in page
    assert "127.0.0.1" not in page


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "java&#x09;script:alert(1)",
        "&#x20;javascript:alert(1)",
        "\x01javascript:alert(1)",
        "JAVASCRIPT:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "relative/path",
        "#top",
        "",
        "http://[broken",
    ],
)
@pytest.mark.parametrize("shape", ['<a href="{}">words</a>', '<img alt="words" src="{}">'])
def test_addresses_nobody_follows(hub: Hub, address: str, shape: str) -> None:
    hub.comment("lee", 1, shape.format(address))
    page = render_page(hub, 1)
    assert "<span>words</span>" in page or "image: words" in page


def test_it_fits_a_phone_and_follows_the_colours_of_the_reader(hub: Hub) -> None:
    page = render_page(hub, 1)
    assert 'name="viewport"' in page
    assert "@media (max-width: 480px)" in page
    assert "color-scheme: light dark" in page


def test_the_numbers_of_a_diff() -> None:
    lines = diff_lines("@@ -3,3 +7,3 @@ def f():\n same\n-old\n+new\n\\ No newline at end of file\n@@ -20 +30 @@\n-x")
    assert [(line.kind, line.old, line.new) for line in lines] == [
        ("hunk", "", ""),
        ("same", "3", "7"),
        ("del", "4", ""),
        ("add", "", "8"),
        ("hunk", "", ""),
        ("del", "20", ""),
    ]


@pytest.mark.parametrize(("count", "shown", "says"), [(399, 400, False), (400, 401, True), (5000, 401, True)])
def test_a_long_diff_is_cut_with_a_note(count: int, shown: int, says: bool) -> None:
    lines = diff_lines("@@ -0,0 +1 @@\n" + "\n".join(f"+{number}" for number in range(count)))
    assert len(lines) == shown
    assert (f"{count + 1 - 400} more lines" in lines[-1].text) is says


# The picture


def test_without_a_browser_there_is_no_picture(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "NAMES", ())
    (tmp_path / "page.html").write_text(render_page(hub, 1), encoding="utf-8")
    assert screenshot(tmp_path / "page.html", tmp_path / "page.png") is False
    assert not (tmp_path / "page.png").exists()


@pytest.mark.parametrize("script", ["exit 3", "exit 0", "sleep 30"])
def test_a_browser_that_fails_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    fake = tmp_path / "chromium"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(browser, "NAMES", (str(fake),))
    monkeypatch.setattr(browser, "DEADLINE_S", 0.5)
    (tmp_path / "page.html").write_text("<html><body></body></html>")
    assert screenshot(tmp_path / "page.html", tmp_path / "page.png") is False


def test_a_page_that_is_not_there(tmp_path: Path) -> None:
    assert screenshot(tmp_path / "no.html", tmp_path / "page.png") is False


@pytest.mark.browser
@pytest.mark.skipif(browser.found() is None, reason="no Chromium; `make browser` installs one")
def test_the_whole_page_is_in_the_picture(hub: Hub, tmp_path: Path) -> None:
    hub.comment("mira", 1, "\n\n".join(f"paragraph {count}" for count in range(60)))
    (tmp_path / "page.html").write_text(render_page(hub, 1), encoding="utf-8")

    def shot(name: str, **options: int | bool) -> tuple[int, int, int]:
        """Width, height, and how light the first pixel is."""
        assert screenshot(tmp_path / "page.html", tmp_path / name, **options)  # type: ignore[arg-type]
        content = (tmp_path / name).read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        parts, at = b"", 33
        while at < len(content):
            size = int.from_bytes(content[at : at + 4], "big")
            parts += content[at + 8 : at + 8 + size] if content[at + 4 : at + 8] == b"IDAT" else b""
            at += 12 + size
        return int(width), int(height), zlib.decompress(parts)[1]

    width, height, light = shot("page.png")
    assert width == 1100 and height > 2000 and light > 200
    narrow, tall, dark = shot("phone.png", width=400, dark=True)
    assert narrow == 400 and tall > 2000 and dark < 60
