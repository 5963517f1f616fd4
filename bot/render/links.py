"""Where a comment may point. Everything is optional: a page without links still says it all in words."""

from __future__ import annotations

from dataclasses import dataclass

from bot.render.escape import Trusted, attribute


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of plots name a commit, so that a picture can never change under its reader."""

    plot_light: str = ""
    """The best variant against v0, case by case, for a light page; then for a dark one."""
    plot_dark: str = ""
    variants_light: str = ""
    """All variants beside one another."""
    variants_dark: str = ""
    roofline_light: str = ""
    """How near each case comes to what the memory can do."""
    roofline_dark: str = ""
    lineage_light: str = ""
    """Which idea led where."""
    lineage_dark: str = ""
    ledger: str = ""
    """The campaign's folder on the ledger branch, at a commit."""
    run: str = ""
    commit: str = ""
    """The pushed commit."""
    lineage: str = ""
    """The branch with one commit per accepted variant."""


def attribute_url(url: str) -> str:
    """An address we made from checked parts; quotes and spaces would still end the attribute."""
    for raw, safe in (("&", "&amp;"), ('"', "%22"), ("<", "%3C"), (">", "%3E"), (" ", "%20"), ("\n", "")):
        url = url.replace(raw, safe)
    return url


def link(words: str, url: str) -> Trusted:
    """Markdown link, or nothing. Parentheses would end the address."""
    safe = attribute_url(url).replace("(", "%28").replace(")", "%29")
    return Trusted(f"[{words}]({safe})" if url else "")


def picture(light: str, dark: str, alt: str) -> Trusted:
    """One plot in two colourings; the reader's page picks."""
    if not light:
        return Trusted("")
    other = f'<source media="(prefers-color-scheme: dark)" srcset="{attribute_url(dark)}">' if dark else ""
    return Trusted(f'<picture>{other}<img alt="{attribute(alt)}" src="{attribute_url(light)}" width="540"></picture>')
