// Numbers, sizes and times as people read them.
import type { Value } from "./api";

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** A number of a cell; null stays null. */
export function number(value: Value | undefined): number | null {
  if (value === null || value === undefined || value === "") return null;
  const found = Number(value);
  return Number.isFinite(found) ? found : null;
}

export function count(value: Value | undefined): string {
  const found = number(value);
  return found === null ? "–" : found.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function bytes(value: Value | undefined): string {
  let found = number(value);
  if (found === null) return "–";
  let unit = 0;
  while (found >= 1024 && unit < UNITS.length - 1) {
    found /= 1024;
    unit += 1;
  }
  return `${unit === 0 || found >= 100 ? found.toFixed(0) : found.toFixed(1)} ${UNITS[unit]}`;
}

/** Seconds as the two largest units: 3 d 4 h, 12 min, 4.2 s, 8 ms. */
export function duration(value: Value | undefined): string {
  const found = number(value);
  if (found === null) return "–";
  if (found < 0.001) return "0 ms";
  if (found < 1) return `${(found * 1000).toFixed(0)} ms`;
  if (found < 60) return `${found.toFixed(found < 10 ? 1 : 0)} s`;
  if (found < 3600) return `${Math.floor(found / 60)} min ${Math.floor(found % 60)} s`;
  if (found < 86400) return `${Math.floor(found / 3600)} h ${Math.floor((found % 3600) / 60)} min`;
  return `${Math.floor(found / 86400)} d ${Math.floor((found % 86400) / 3600)} h`;
}

export function milliseconds(value: Value | undefined): string {
  const found = number(value);
  if (found === null) return "–";
  if (found < 1) return `${found.toFixed(3)} ms`;
  if (found < 1000) return `${found.toFixed(1)} ms`;
  return `${(found / 1000).toFixed(2)} s`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
}

/** A value as a cell shows it. */
export function cell(value: Value | undefined): string {
  if (value === null || value === undefined) return "NULL";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** An identifier as SQL wants it. */
export function quoted(name: string): string {
  return /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
