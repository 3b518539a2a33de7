"""Bar plots as SVG, written by hand: no library, one file a figure."""
import os
from html import escape

COLOURS = ["#0b65c2", "#d98200", "#6a1b9a", "#4b8b3b"]
LEFT, RIGHT, TOP, BAR, GAP = 150, 90, 62, 18, 12
WIDTH = 760


def bars(title, unit, series, groups, digits=0):
    """Horizontal bars: `groups` are (name, [value or None for each of the series])."""
    top = max(value or 0 for _, values in groups for value in values) or 1
    scale = (WIDTH - LEFT - RIGHT) / top
    parts, y = [], TOP
    for name, values in groups:
        shown = [(index, value) for index, value in enumerate(values) if value is not None]
        middle = y + len(shown) * BAR / 2 + 4
        parts.append(f'<text x="{LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>')
        for index, value in shown:
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{max(value * scale, 1):.1f}" height="{BAR - 3}" fill="{COLOURS[index]}"/>')
            parts.append(f'<text x="{LEFT + value * scale + 5:.1f}" y="{y + 12}">{value:,.{digits}f}</text>')
            y += BAR
        y += GAP
    legend, x = [], LEFT
    for index, name in enumerate(series):
        legend.append(f'<rect x="{x}" y="36" width="11" height="11" fill="{COLOURS[index]}"/><text x="{x + 16}" y="46">{escape(name)}</text>')
        x += 34 + 7 * len(name)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" width="{WIDTH}" height="{y + 4}" '
            'font-family="system-ui, sans-serif" font-size="12" fill="#1c2128">'
            f'<rect width="100%" height="100%" fill="#ffffff"/><text x="12" y="22" font-size="15" font-weight="600">{escape(title)}, {escape(unit)}</text>'
            + "".join(legend) + "".join(parts) + "</svg>\n")


def plots(found, dir):
    os.makedirs(dir, exist_ok=True)

    def write(name, text):
        open(os.path.join(dir, name + ".svg"), "w").write(text)

    def of(row):
        return [r for r in found["rows"] if r["row"] == row]

    if rows := of("grpc:1000"):
        groups = [(r["system"], [r["accepted_per_s"], r["landed_per_s"]]) for r in rows]
        groups.append(("engine alone", [None, found["ceiling"]["landed_per_s"]]))
        write("grpc-1000", bars("OTLP/gRPC, 1,000 records a request", "records/s", ["accepted", "landed"], groups))
        groups = [(r["system"], [r["cpu_us"]["daemon"], r["cpu_us"]["engine"]]) for r in rows if r["landed_per_s"]]
        groups.append(("engine alone", [None, found["ceiling"]["cpu_us"]]))
        write("cpu", bars("CPU at 1,000 records a request", "µs a record", ["daemon", "engine"], groups, 2))
        groups = [(r["system"], [r["steady_mib"]["daemon"], r["peak_mib"]["daemon"]]) for r in rows]
        write("memory", bars("Memory of the daemon at 1,000 records a request", "MiB", ["steady", "peak"], groups))
    singles = [row for row in ("grpc:1", "grpc:1x40", "json:1", "json:1x320", "json:1x512") if of(row)]
    names = [name for name in ("watchtower", "bare", "rotel", "collector") if any(r["system"] == name for row in singles for r in of(row))]
    if singles:
        by = {(r["row"], r["system"]): r["accepted_per_s"] for r in found["rows"]}
        write("singles", bars("One record a request", "requests/s", names, [(row, [by.get((row, name)) for name in names]) for row in singles]))
    if found["stored"]:
        groups = [(name, [size]) for name, size in found["stored"].items()]
        write("stored", bars("Stored after merging", "bytes a record", ["on disk"], groups, 1))
