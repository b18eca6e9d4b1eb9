"""What notebooks show: tables, and a curve as SVG. No library is needed."""

import html

WIDTH, HEIGHT, MARGIN = 480, 160, 36


def table(rows):
    """An HTML table of dictionaries with the same keys."""
    rows = [dict(row) for row in rows]
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(str(key))}</th>" for key in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(shown(entry))}</td>" for entry in row.values()) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shown(entry):
    return f"{entry:.4g}" if isinstance(entry, float) else f"{entry:,}" if isinstance(entry, int) else str(entry)


def curve(numbers, title):
    """A line through numbers, with the smallest and the largest written beside it."""
    low, high = min(numbers), max(numbers)
    across, up = (WIDTH - 2 * MARGIN) / max(1, len(numbers) - 1), (HEIGHT - 2 * MARGIN) / ((high - low) or 1)
    points = " ".join(f"{MARGIN + i * across:.1f},{HEIGHT - MARGIN - (number - low) * up:.1f}"
                      for i, number in enumerate(numbers))
    def text(x, y, words):
        return f'<text x="{x}" y="{y}" font-size="11" font-family="sans-serif">{html.escape(words)}</text>'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">' +
            f'<polyline points="{points}" fill="none" stroke="#3366cc" stroke-width="1.5"/>' +
            text(MARGIN, 16, title) + text(2, MARGIN + 4, f"{high:.3g}") + text(2, HEIGHT - MARGIN + 4, f"{low:.3g}") +
            text(MARGIN, HEIGHT - 12, "step 1") + text(WIDTH - 2 * MARGIN, HEIGHT - 12, f"step {len(numbers)}") + "</svg>")
