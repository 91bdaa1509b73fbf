// A result as a chart: uPlot, loaded when it is first wanted.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Answer, Value } from "./api";
import { cell, number } from "./format";
import { Empty } from "./ui";

const NUMERIC = /^(int2|int4|int8|float4|float8|numeric|oid|money)$/;
const TIME = /^(date|timestamp|timestamptz)$/;
const SERIES = 8;
const HEIGHT = 340; // pixels

type Kind = "lines" | "bars";

interface Axis {
  at: number;
  kind: "time" | "number" | "label";
}

export default function Chart({ answer }: { answer: Answer }) {
  const numeric = answer.columns.map((column, at) => ({ ...column, at })).filter((column) => NUMERIC.test(column.type));
  const [across, setAcross] = useState(() => firstAcross(answer));
  const [kind, setKind] = useState<Kind>(() => (axisOf(answer, firstAcross(answer)).kind === "label" ? "bars" : "lines"));
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  const up = numeric.filter((column) => column.at !== across && !hidden.has(column.at)).slice(0, SERIES);
  if (!numeric.some((column) => column.at !== across) && !(numeric.length && answer.columns.length === 1))
    return <Empty title="There is nothing to draw.">A chart needs a column of numbers and another column.</Empty>;
  return (
    <div class="chart">
      <div class="chart-bar">
        <label>
          Across{" "}
          <select value={String(across)} onChange={(event) => setAcross(Number(event.currentTarget.value))}>
            <option value="-1">row number</option>
            {answer.columns.map((column, at) => (
              <option value={String(at)}>{column.name}</option>
            ))}
          </select>
        </label>
        <label>
          As{" "}
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
            <option value="lines">lines</option>
            <option value="bars">bars</option>
          </select>
        </label>
        <fieldset>
          <legend class="hidden">Columns drawn</legend>
          {numeric
            .filter((column) => column.at !== across)
            .slice(0, SERIES)
            .map((column) => (
              <label class="check">
                <input
                  type="checkbox"
                  checked={!hidden.has(column.at)}
                  onChange={() => {
                    const next = new Set(hidden);
                    if (!next.delete(column.at)) next.add(column.at);
                    setHidden(next);
                  }}
                />{" "}
                {column.name}
              </label>
            ))}
        </fieldset>
      </div>
      <Plot answer={answer} across={across} up={up} kind={kind} />
    </div>
  );
}

function firstAcross(answer: Answer): number {
  const time = answer.columns.findIndex((column) => TIME.test(column.type));
  if (time >= 0) return time;
  const label = answer.columns.findIndex((column) => !NUMERIC.test(column.type));
  if (label >= 0) return label;
  return answer.columns.length > 1 ? 0 : -1;
}

function axisOf(answer: Answer, at: number): Axis {
  if (at < 0) return { at, kind: "number" };
  const type = answer.columns[at]!.type;
  return { at, kind: TIME.test(type) ? "time" : NUMERIC.test(type) ? "number" : "label" };
}

/** Seconds since 1970 of a date's text; those without a zone are taken as UTC. */
function seconds(value: Value): number | null {
  if (value === null) return null;
  let text = String(value).replace(" ", "T");
  if (/^\d{4}-\d\d-\d\d$/.test(text)) text += "T00:00:00Z";
  else if (/[+-]\d\d$/.test(text)) text += ":00";
  else if (!/(Z|[+-]\d\d:\d\d)$/.test(text)) text += "Z";
  const found = Date.parse(text);
  return Number.isNaN(found) ? null : found / 1000;
}

interface PlotProps {
  answer: Answer;
  across: number;
  up: { name: string; at: number }[];
  kind: Kind;
}

function Plot({ answer, across, up, kind }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const axis = axisOf(answer, across);
  const { data, labels } = useMemo(() => arranged(answer, axis, up.map((column) => column.at)), [answer, across, up.map((column) => column.at).join()]);
  useEffect(() => {
    const element = place.current!;
    const draw = () => {
      const style = getComputedStyle(element);
      const colour = (name: string) => {
        element.style.color = `var(${name})`; // a variable's own value is both colours, light-dark()
        const found = style.color;
        element.style.color = "";
        return found;
      };
      const lines = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      return new uPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
          scales: {
            x: { time: axis.kind === "time", ...(kind === "bars" ? { range: (plot, low, high) => padded(plot, low, high) } : {}) },
            ...(kind === "bars" ? { y: { range: (_, low, high) => [Math.min(0, low), Math.max(0, high) * 1.05] } } : {}),
          },
          axes: [
            {
              ...lines,
              ...(labels
                ? {
                    splits: () => ticks(labels.length),
                    values: (_: uPlot, at: number[]) => at.map((index) => shortened(labels[index] ?? "")),
                  }
                : {}),
            },
            { ...lines, size: 64 },
          ],
          series: [
            { label: across < 0 ? "row" : answer.columns[across]!.name, ...(labels ? { value: (_: uPlot, at: number) => labels[at] ?? "–" } : {}) },
            ...up.map((column, index) => ({
              label: column.name,
              stroke: colour(`--series-${index + 1}`),
              width: 2,
              ...(kind === "bars"
                ? { fill: colour(`--series-${index + 1}`), paths: bars(index, up.length), points: { show: false } }
                : {}),
            })),
          ],
        },
        data as uPlot.AlignedData,
        element,
      );
    };
    let plot = draw();
    const again = () => {
      plot.destroy();
      plot = draw();
    };
    const sizes = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    const themes = new MutationObserver(again);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", again);
    return () => {
      sizes.disconnect();
      themes.disconnect();
      system.removeEventListener("change", again);
      plot.destroy();
    };
  }, [data, kind]);
  return <div class="plot" ref={place} role="img" aria-label={`Chart of ${up.map((column) => column.name).join(", ")}`} />;
}

function arranged(answer: Answer, axis: Axis, up: number[]): { data: (number | null)[][]; labels: string[] | undefined } {
  const along = (row: Value[], at: number) =>
    axis.at < 0 ? at + 1 : axis.kind === "time" ? seconds(row[axis.at] ?? null) : axis.kind === "number" ? number(row[axis.at]) : at;
  const points = answer.rows
    .map((row, at) => ({ x: along(row, at), row }))
    .filter((point): point is { x: number; row: Value[] } => point.x !== null);
  if (axis.kind !== "label") points.sort((a, b) => a.x - b.x);
  return {
    data: [points.map((point) => point.x), ...up.map((at) => points.map((point) => number(point.row[at])))],
    labels: axis.kind === "label" ? answer.rows.map((row) => cell(row[axis.at])) : undefined,
  };
}

/** The smallest distance between two places across: the room that a group of bars has. */
function room(across: ArrayLike<number>): number {
  let least = Infinity;
  for (let at = 1; at < across.length; at += 1) least = Math.min(least, across[at]! - across[at - 1]! || Infinity);
  return Number.isFinite(least) ? least : 1;
}

function padded(plot: uPlot, low: number, high: number): [number, number] {
  const half = room(plot.data[0]) * 0.6;
  return [low - half, high + half];
}

/** Bars of one series beside those of the others. */
function bars(index: number, all: number): uPlot.Series.PathBuilder {
  return (plot, series, first, last) => {
    const across = plot.data[0];
    const values = plot.data[series]!;
    const width = (room(across) * 0.8) / all;
    const path = new Path2D();
    const zero = plot.valToPos(0, "y", true);
    for (let at = first; at <= last; at += 1) {
      const value = values[at];
      if (value === null || value === undefined) continue;
      const left = across[at]! + (index - all / 2) * width;
      const from = plot.valToPos(left, "x", true);
      const top = plot.valToPos(value, "y", true);
      path.rect(from, Math.min(top, zero), Math.max(1, plot.valToPos(left + width, "x", true) - from), Math.abs(zero - top));
    }
    return { stroke: path, fill: path };
  };
}

function ticks(length: number): number[] {
  const step = Math.max(1, Math.ceil(length / 12));
  return Array.from({ length: Math.ceil(length / step) }, (_, at) => at * step);
}

function shortened(text: string): string {
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}
