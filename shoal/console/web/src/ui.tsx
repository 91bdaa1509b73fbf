// The pieces that all pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RequestError, Row } from "./api";
import { plural } from "./format";
import { usePaused, pause, type Live } from "./live";

export type Tone = "plain" | "good" | "warn" | "bad" | "accent";

export function Badge({ tone = "plain", children, title }: { tone?: Tone; children: ComponentChildren; title?: string }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Failure({ error }: { error: RequestError }) {
  const { message, detail, hint, sqlstate } = error.report;
  return (
    <div class="failure" role="alert">
      <p>
        <strong>{message}</strong> {error.status > 0 && <code>{sqlstate}</code>}
      </p>
      {detail && <p>{detail}</p>}
      {hint && <p class="muted">{hint}</p>}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div class="loading" role="status">
      <span class="spinner" aria-hidden="true" /> {what} …
    </div>
  );
}

/** A page's heading, with how fresh it is. */
export function Heading({ title, live, children }: { title: string; live?: Live; children?: ComponentChildren }) {
  const paused = usePaused();
  return (
    <header class="heading">
      <h1 tabIndex={-1}>{title}</h1>
      <div class="heading-side">
        {children}
        {live && (
          <button
            class={`live ${live.error ? "bad" : paused ? "" : "good"}`}
            onClick={() => pause(!paused)}
            title="Pause or resume (p)"
            aria-pressed={paused}
          >
            <span class="dot" aria-hidden="true" />
            {live.error ? "not current" : paused ? "paused" : "live"}
          </button>
        )}
      </div>
    </header>
  );
}

/** What a view shows: the content when it is there, with the error above it when it is old. */
export function Viewed({ live, what, children }: { live: Live; what: string; children: () => ComponentChildren }) {
  return (
    <>
      {live.error && <Failure error={live.error} />}
      {live.view ? children() : !live.error && <Loading what={`Reading ${what}`} />}
    </>
  );
}

export interface ColumnOf {
  name: string;
  title: string;
  /** How the cell looks; the value as it is when there is none. */
  show?: (row: Row) => ComponentChildren;
  numeric?: boolean;
  grow?: boolean;
  /** Not sorted by. */
  fixed?: boolean;
  /** Left out in narrow windows. */
  wide?: boolean;
}

const DRAWN = 200; // rows of a list, until more are asked for: the search looks at all of them

interface ListProps {
  label: string;
  columns: ColumnOf[];
  rows: Row[];
  keyOf: (row: Row) => string;
  empty: ComponentChildren;
  search?: boolean;
  truncated?: boolean | undefined;
  expand?: (row: Row) => ComponentChildren;
  sort?: { by: string; down: boolean };
}

/** A table that can be sorted, searched and opened row by row. */
export function List(props: ListProps) {
  const { label, columns, rows, keyOf, empty, search = true, truncated, expand } = props;
  const [order, setOrder] = useState<{ by: string; down: boolean } | undefined>(props.sort);
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<string>();
  const [drawn, setDrawn] = useState(DRAWN);
  const shown = useMemo(() => sorted(matching(rows, words), order), [rows, words, order]);
  return (
    <div class="list">
      {search && rows.length > 0 && (
        <div class="list-bar">
          <input
            class="search"
            type="search"
            placeholder={`Search ${label.toLowerCase()}`}
            aria-label={`Search ${label.toLowerCase()}`}
            value={words}
            onInput={(event) => setWords(event.currentTarget.value)}
          />
          <span class="muted" aria-live="polite">
            {words ? `${shown.length} of ${rows.length}` : plural(rows.length, "row")}
            {truncated ? " – the list is truncated here" : ""}
          </span>
        </div>
      )}
      {rows.length === 0 ? (
        empty
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={label}>
          <table>
            <thead>
              <tr>
                {expand && <th class="narrow"><span class="hidden">Details</span></th>}
                {columns.map((column) => (
                  <th
                    class={classOf(column)}
                    aria-sort={order?.by === column.name ? (order.down ? "descending" : "ascending") : undefined}
                    scope="col"
                  >
                    {column.fixed ? (
                      column.title
                    ) : (
                      <button
                        class="sort"
                        onClick={() =>
                          setOrder({ by: column.name, down: order?.by === column.name ? !order.down : !!column.numeric })
                        }
                      >
                        {column.title}
                        <span aria-hidden="true">{order?.by === column.name ? (order.down ? " ↓" : " ↑") : ""}</span>
                      </button>
                    )}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.slice(0, drawn).map((row) => {
                const key = keyOf(row);
                return (
                  <>
                    <tr key={key}>
                      {expand && (
                        <td class="narrow">
                          <button
                            class="icon"
                            aria-expanded={open === key}
                            aria-label="Details"
                            onClick={() => setOpen(open === key ? undefined : key)}
                          >
                            {open === key ? "▾" : "▸"}
                          </button>
                        </td>
                      )}
                      {columns.map((column) => (
                        <td class={classOf(column)}>
                          {column.show ? column.show(row) : text(row[column.name])}
                        </td>
                      ))}
                    </tr>
                    {expand && open === key && (
                      <tr key={`${key} open`} class="opened">
                        <td colSpan={columns.length + 1}>{expand(row)}</td>
                      </tr>
                    )}
                  </>
                );
              })}
            </tbody>
          </table>
          {shown.length === 0 && <Empty title="Nothing matches the search." />}
        </div>
      )}
      {shown.length > drawn && (
        <p class="more">
          <button onClick={() => setDrawn(drawn + DRAWN)}>Show more ({plural(shown.length - drawn, "row")} below)</button>
        </p>
      )}
    </div>
  );
}

function classOf(column: ColumnOf): string {
  return `${column.numeric ? "numeric" : column.grow ? "grow" : ""} ${column.wide ? "wide-only" : ""}`;
}

function text(value: unknown): string {
  return value === null || value === undefined || value === "" ? "–" : String(value);
}

function matching(rows: Row[], words: string): Row[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return rows;
  return rows.filter((row) => {
    const all = Object.values(row).join("\u0001").toLowerCase();
    return wanted.every((word) => all.includes(word));
  });
}

function sorted(rows: Row[], order: { by: string; down: boolean } | undefined): Row[] {
  if (!order) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => sign * compared(a[order.by], b[order.by]));
}

function compared(a: unknown, b: unknown): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  const left = Number(a);
  const right = Number(b);
  if (!Number.isNaN(left) && !Number.isNaN(right)) return left - right;
  return String(a).localeCompare(String(b));
}

/** A share of the largest, drawn behind a number. */
export function Bar({ part, children }: { part: number; children: ComponentChildren }) {
  return (
    <span class="bar">
      <span class="bar-fill" style={{ width: `${Math.max(0, Math.min(1, part)) * 100}%` }} aria-hidden="true" />
      <span class="bar-text">{children}</span>
    </span>
  );
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
}

/** A modal dialog: the browser keeps the focus in it, Escape closes it. */
export function Dialog({ title, onClose, children, class: kind = "" }: DialogProps) {
  const own = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = own.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  const outside = (event: MouseEvent) => {
    if (event.target === own.current) onClose();
  };
  return (
    <dialog ref={own} class={`dialog ${kind}`} aria-label={title} onClose={onClose} onClick={outside}>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

// ---- messages that go away by themselves ----

let say: (message: string, tone: Tone) => void = () => undefined;

export function toast(message: string, tone: Tone = "plain"): void {
  say(message, tone);
}

export function Toasts() {
  const [shown, setShown] = useState<{ id: number; message: string; tone: Tone }[]>([]);
  useEffect(() => {
    let next = 0;
    say = (message, tone) => {
      const id = (next += 1);
      setShown((before) => [...before.slice(-3), { id, message, tone }]);
      window.setTimeout(() => setShown((before) => before.filter((item) => item.id !== id)), 6000);
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((item) => (
        <div key={item.id} class={`toast ${item.tone}`}>
          {item.message}
        </div>
      ))}
    </div>
  );
}

/** A line through the last figures. */
export function Spark({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return null;
  const top = Math.max(...values, 1e-9);
  const step = 100 / (values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${(23 - (value / top) * 22).toFixed(1)}`).join(" ");
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={points} />
    </svg>
  );
}
