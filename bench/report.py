"""From measurements to a table, its Markdown and a plot."""
import collections
import math
import platform
import statistics
from xml.sax.saxutils import escape

BEGIN, END = "<!-- table -->", "<!-- end of table -->"


class Figures:
    """What the client prints, by line of the plan."""

    def __init__(self):
        self.latency_ms = collections.defaultdict(list)
        self.runs = collections.Counter()
        self.seconds = collections.Counter()
        self.failures = collections.defaultdict(list)

    def add(self, words):
        kind, line = words[0], words[1]
        if kind == "latency":
            self.latency_ms[line].append(int(words[2]) / 1e6)
        elif kind == "rate":
            self.runs[line, words[2]] += int(words[3])
            self.seconds[line, words[2]] += int(words[4]) / 1e9
        elif kind == "failed":
            self.failures[line].append(" ".join(words[2:]))

    def p(self, line, share):
        """The smallest measured value that at least this share of all does not exceed."""
        values = sorted(self.latency_ms[line])
        return values[max(0, math.ceil(share * len(values)) - 1)]

    def p50(self, line):
        return statistics.median(self.latency_ms[line])

    def rate(self, line, parallel):
        seconds = self.seconds[line, parallel]
        return self.runs[line, parallel] / seconds if seconds else None


def number(value):
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def machine():
    model = "?"
    with open("/proc/cpuinfo") as file:
        processors = 0
        for line in file:
            processors += line.startswith("processor")
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
    return f"{processors} x {model}, Linux {platform.release()}"


class Report:
    HEADS = ["work", "contender", "n", "p10 ms", "p50 ms", "p99 ms", "runs/s", "runs/s by 2",
             "x bare"]

    def __init__(self, figures, works, contenders, notes, options):
        self.figures, self.works, self.contenders = figures, works, contenders
        self.notes = notes + [
            f"{line}: {len(why)} runs failed, the last: {why[-1]}"
            for line, why in figures.failures.items()]
        self.options = options

    def own_failures(self):
        own = {c.id for c in self.contenders if c.own}
        return [f"{line} ({why[-1]})" for line, why in self.figures.failures.items()
                if line.split("/")[1] in own]

    def rows_of(self, work):
        """The fastest first."""
        f = self.figures
        rows = []
        if not f.latency_ms[work.id + "/bare"]:
            return rows
        bare = f.p50(work.id + "/bare")
        for contender in self.contenders:
            line = f"{work.id}/{contender.id}"
            if not f.latency_ms[line]:
                continue
            p50 = f.p50(line)
            rows.append({
                "contender": contender, "p50": p50, "p99": f.p(line, 0.99), "ratio": p50 / bare,
                "cells": [work.id, contender.title, str(len(f.latency_ms[line])),
                          number(f.p(line, 0.1)), number(p50), number(f.p(line, 0.99)),
                          number(f.rate(line, "1")), number(f.rate(line, "2")),
                          f"{p50 / bare:.2f}"],
            })
        return sorted(rows, key=lambda row: row["p50"])

    def table(self, bold):
        lines = [self.HEADS]
        for work in self.works:
            for row in self.rows_of(work):
                cells = list(row["cells"])
                if bold and row["contender"].own:
                    cells[1] = f"**{cells[1]}**"
                lines.append(cells)
        return lines

    def goals(self):
        """The figures that hotcell wants to reach, and where it is: at the median, and at p10,
        which is what a machine that does nothing else would show."""
        f = self.figures

        def told(text, first, second, how, wanted):
            if not (f.latency_ms[first] and f.latency_ms[second]):
                return []
            middle = how(f.p50(first), f.p50(second))
            best = how(f.p(first, 0.1), f.p(second, 0.1))
            return [text.format(f"{middle:.2f} (p10: {best:.2f})") + f" (wanted: at most {wanted})"]

        def over(x, y):
            return x - y

        def ratio(x, y):
            return x / y

        def part(text, line, share, wanted):
            """As a part of the bare process's median."""
            bare = line.split("/")[0] + "/bare"
            if not (f.latency_ms[line] and f.latency_ms[bare]):
                return []
            value = f.p50(bare) / (f.p50(line) if share == 0.5 else f.p(line, share))
            return [f"{text}: 1/{value:.0f} of the bare process (wanted: 1/{wanted})"]

        def control(line, other):
            """Where even nothing is late now and then, so is everybody."""
            if not (f.latency_ms[line] and f.latency_ms[other]):
                return []
            return [f"the machine's own part: p99 of a process that only computes is {f.p(line, 0.99):.2f} ms, "
                    f"{f.p(line, 0.99) / f.p50(line):.1f} x its p50; that of the warm vm is {f.p(other, 0.99):.2f} ms, "
                    f"{f.p(other, 0.99) / f.p50(other):.1f} x its p50"]

        def rate(text, line, wanted):
            bare = line.split("/")[0] + "/bare"
            if not (f.rate(line, "2") and f.rate(bare, "2")):
                return []
            return [f"{text}: {f.rate(line, '2') / f.rate(bare, '2'):.1f} x as many a second as bare "
                    f"processes, two at a time (wanted: {wanted})"]

        return (
            part("W1, warm vm, p50", "W1/vm-warm", 0.5, 60)
            + part("W1, warm vm, p99", "W1/vm-warm", 0.99, 20)
            + control("W1/control", "W1/vm-warm")
            + part("W5, warm vm, p50", "W5/vm-warm", 0.5, 60)
            + part("W6, warm vm, p50", "W6/vm-warm", 0.5, 100)
            + part("W2, warm vm, p50", "W2/vm-warm", 0.5, 100)
            + part("W1, warm vm used once, p50", "W1/vm-ahead", 0.5, 40)
            + rate("W1, warm vm", "W1/vm-warm", 40)
            + rate("W1, warm vm used once", "W1/vm-ahead", 4)
            + told("W1, hotcell run, vm: {} x the bare process", "W1/vm", "W1/bare", ratio, "1")
            + told("W7, warm vm: {} x the bare process", "W7/vm-warm", "W7/bare", ratio, "1.4")
            + told("W3, library, cold container: {} ms over the bare process",
                 "W3/library", "W3/bare", over, "1.5")
            + told("W3, library, cold container: {} of bubblewrap's time",
                   "W3/library", "W3/bwrap", ratio, "0.5")
            + told("W1, hotcell run, cold container: {} x the bare process",
                   "W1/container", "W1/bare", ratio, "1.25"))

    def text(self):
        table = self.table(bold=False)
        widths = [max(len(row[i]) for row in table) for i in range(len(self.HEADS))]
        lines = []
        for row in table:
            if lines and row[0] != last:
                lines.append("")
            last = row[0]
            lines.append("  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))))
        return "\n".join(lines + [""] + self.goals() + [""] + self.notes)

    def markdown(self):
        table = self.table(bold=True)
        lines = [f"Machine: {machine()}; its load before: {self.options['load']:.1f}. "
                 f"Rounds: {self.options['rounds']}"
                 + (" (quick)" if self.options["quick"] else "") + ".", ""]
        lines += [f"- {work.id}: `{work.title}`" for work in self.works]
        lines += ["", "| " + " | ".join(table[0]) + " |", "|---|---" + "|---:" * 7 + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in table[1:]]
        lines += [""] + [f"- {line}" for line in self.goals() + self.notes]
        return "\n".join(lines) + "\n"

    def write(self, markdown_path, svg_path):
        with open(markdown_path, "w") as file:
            file.write(self.markdown())
        with open(svg_path, "w") as file:
            file.write(Plot(self).svg())

    def write_into(self, path):
        """Puts the table between the two marks of a document."""
        with open(path) as file:
            before, _, rest = file.read().partition(BEGIN)
            after = rest.partition(END)[2]
        with open(path, "w") as file:
            file.write(f"{before}{BEGIN}\n{self.markdown()}{END}{after}")


class Plot:
    """One panel for each work: bars up to the median, a line up to the 99th percentile, on a
    logarithmic scale that all panels share."""
    WIDTH, LEFT, RIGHT = 960, 270, 130
    ROW, HEAD, FOOT = 22, 34, 40

    def __init__(self, report):
        self.panels = [(work, report.rows_of(work)) for work in report.works]
        rows = [row for _, panel in self.panels for row in panel]
        # A third: the shortest bar is to be seen, too.
        self.low = 10 ** math.floor(math.log10(min(row["p50"] for row in rows) / 3))
        self.high = 10 ** math.ceil(math.log10(max(row["p99"] for row in rows)))

    def x(self, ms):
        share = math.log(ms / self.low) / math.log(self.high / self.low)
        return self.LEFT + share * (self.WIDTH - self.LEFT - self.RIGHT)

    def text(self, x, y, words, anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>'
                          f'{escape(words)}</text>')

    def line(self, x1, y1, x2, y2, colour):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}"/>')

    def svg(self):
        height = self.FOOT + sum(self.HEAD + self.ROW * len(rows) for _, rows in self.panels)
        self.parts = [f'<rect width="{self.WIDTH}" height="{height}" fill="#ffffff"/>']
        decade = self.low
        while decade <= self.high * 1.001:
            self.line(self.x(decade), self.HEAD - 8, self.x(decade), height - self.FOOT + 6,
                      "#dddddd")
            self.text(self.x(decade), height - self.FOOT + 22, f"{decade:g} ms", "middle")
            decade *= 10
        y = 0
        for work, rows in self.panels:
            self.text(12, y + self.HEAD - 12, f"{work.id}: {work.title}", more=' font-weight="bold"')
            y += self.HEAD
            for row in rows:
                self.bar(y, row)
                y += self.ROW
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.WIDTH}" height="{height}" '
                f'viewBox="0 0 {self.WIDTH} {height}" font-family="sans-serif" font-size="12" '
                f'fill="#222222">\n<title>Time of one run: median, and 99th percentile</title>\n'
                f'{body}\n</svg>\n')

    def bar(self, y, row):
        colour = "#d9480f" if row["contender"].own else "#9aa5b1"
        middle = y + self.ROW / 2 - 2
        start, end, far = self.x(self.low), self.x(row["p50"]), self.x(row["p99"])
        self.parts.append(f'<rect x="{start:.1f}" y="{y:.1f}" width="{end - start:.1f}" '
                          f'height="{self.ROW - 6}" fill="{colour}"/>')
        self.line(end, middle, far, middle, colour)
        self.line(far, middle - 4, far, middle + 4, colour)
        self.text(self.LEFT - 8, middle + 4, row["contender"].title, "end")
        self.text(far + 6, middle + 4, f'{number(row["p50"])} ms, {row["ratio"]:.2f} x')
