"""The help page, made from the tables that parse and from the repository's live configuration."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bot.commands.names import known
from bot.commands.options import OPTIONS
from bot.commands.verbs import START, START_EXAMPLE, VERBS
from bot.model.commands import GpuChoice, Optimize
from bot.model.policy import RepoPolicy

LISTED = 60
"""Names one page shows; `list` has them all."""
FREE = ("help", "list", "status", "explain")
EVIDENCE = {
    "measured": "timed on a GPU. What was only compiled and modelled is reported and not pushed",
    "static": 'compiled and modelled. No GPU is needed, and every number says "estimated"',
}
REVIEWS = {
    "final": "A review that approves or requests changes answers the last question too.",
    "all": "A review that approves or requests changes answers every question too.",
    "none": "Reviews answer no question here; comments do.",
}


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:LISTED]) + (
        f" and {len(names) - LISTED} more" if names[LISTED:] else ""
    )


def _kernels(kernels: Sequence[str], touched: Sequence[str]) -> list[str]:
    if not kernels:
        return ["No kernel was found here. `kernelwright.toml` describes where a repository keeps its kernels."]
    rest = [name for name in kernels if name not in touched]
    lines = [f"**This pull request touches {_code(touched)}.**"] if touched else []
    return [*lines, f"{'Also here' if touched else 'Kernels here'}: {_code(rest)}."] if rest else lines


def _start(kernels: Sequence[str], touched: Sequence[str]) -> list[str]:
    first = [*touched, *kernels][:1]
    return ["```", f"/optimize {first[0]}", "```"] if first else []


def _verbs() -> list[str]:
    rows = [(START, "starts a campaign: profile, variants, a table, a question, a commit", START_EXAMPLE)]
    rows += [(verb.usage, verb.summary, verb.example) for verb in VERBS]
    lines = [f"| `{usage}` | {summary} | `{example}` |" for usage, summary, example in rows]
    return ["| Write | It | Example |", "|---|---|---|", *lines]


def _default(name: str, policy: RepoPolicy) -> str:
    """What counts when the option is left out, in this repository."""
    value = Optimize.model_fields[name].default
    if name == "gpu" and value is GpuChoice.AUTO:
        return f"auto: the runner's, or {policy.default_gpu} where nothing is measured"
    if name == "max_variants":
        return str(min(value, policy.max_variants))
    return "none" if value is None else str(value)


def _values(name: str, values: str, policy: RepoPolicy) -> str:
    return f"1 to {policy.max_variants}" if name == "max_variants" else values


def _options(policy: RepoPolicy) -> list[str]:
    rows = [
        f"| `{option.name}` | {_values(option.name, option.values, policy)} | {_default(option.name, policy)} "
        f"| {option.summary} |"
        for option in OPTIONS
    ]
    return ["| Option | Values | When left out | Means |", "|---|---|---|---|", *rows]


def _rules(policy: RepoPolicy) -> list[str]:
    author = "may" if policy.self_approval else "may not"
    last = (
        "A person is always asked before the push"
        if policy.final_approval == "required"
        else ("`mode=autonomous` pushes without a last question")
    )
    return [
        f"- Everybody may ask for {_code(FREE)}; the rest needs write access. Who started a campaign may cancel it.",
        f"- {last}; the author of a pull request {author} be the one who approves it. {REVIEWS[policy.review_answers]}",
        f"- What is pushed is {EVIDENCE[policy.evidence]}.",
        f"- Drafts are {'taken' if policy.allow_drafts else 'not taken'}. A pull request from a fork needs `sha=` "
        "and the commit you looked at.",
        "- One command a comment, on a line that begins with it. Code, quotations and edited comments are not read.",
        "- Every answer names a reason code; `/optimize help <reason>` says what one means.",
    ]


def page(kernels: Collection[str], policy: RepoPolicy, touched: Collection[str] = ()) -> str:
    """Markdown of ours. Kernels that the pull request touches come first, ready to be pasted."""
    names = known(kernels)
    here = [name for name in names if name in touched]
    parts = (
        ["**I make Triton kernels faster and prove it.** Start with:"] if names else [],
        _start(names, here),
        _kernels(names, here),
        _verbs(),
        ["Options are written `goal=speed` or `--goal speed`:"],
        _options(policy),
        ["A kernel named like a command is reached by its key: `/optimize kernel=<name>`."],
        ["**Rules here**"],
        _rules(policy),
    )
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
