// A result's rows: only those in view are in the document, so that ten thousand of them scroll well.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Answer, Value } from "./api";
import { cell } from "./format";
import { Dialog, Empty } from "./ui";

const HEIGHT = 30; // of a row, in pixels; style.css says the same
const BEYOND = 12; // rows that are drawn above and below the view
const LONG = 60; // characters, from which a cell's value is shown whole on request
const NUMERIC = /^(int2|int4|int8|float4|float8|numeric|oid|money)$/;

export function Grid({ answer }: { answer: Answer }) {
  const place = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [value, setValue] = useState<{ name: string; value: Value }>();
  useLayoutEffect(() => {
    const element = place.current!;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  if (!answer.rows.length) return <Empty title="No rows." />;
  const first = Math.max(0, Math.floor(view.top / HEIGHT) - BEYOND);
  const last = Math.min(answer.rows.length, Math.ceil((view.top + view.height) / HEIGHT) + BEYOND);
  return (
    <div
      class="scroll grid"
      ref={place}
      tabIndex={0}
      role="region"
      aria-label="Rows"
      onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
    >
      <table aria-rowcount={answer.rows.length + 1}>
        <thead>
          <tr>
            <th class="row-number" scope="col">
              #
            </th>
            {answer.columns.map((column) => (
              <th scope="col" class={NUMERIC.test(column.type) ? "numeric" : ""}>
                {column.name}
                <span class="type">{column.type}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Gap height={first * HEIGHT} />}
          {answer.rows.slice(first, last).map((row, at) => (
            <tr key={first + at} aria-rowindex={first + at + 2}>
              <td class="row-number">{first + at + 1}</td>
              {answer.columns.map((column, index) => (
                <Cell key={index} value={row[index] ?? null} type={column.type} open={(whole) => setValue({ name: column.name, value: whole })} />
              ))}
            </tr>
          ))}
          {last < answer.rows.length && <Gap height={(answer.rows.length - last) * HEIGHT} />}
        </tbody>
      </table>
      {value && (
        <Dialog title={value.name} onClose={() => setValue(undefined)}>
          <h2>{value.name}</h2>
          <pre>{typeof value.value === "object" ? JSON.stringify(value.value, null, 2) : String(value.value)}</pre>
          <p class="buttons">
            <button onClick={() => void navigator.clipboard.writeText(cell(value.value))}>Copy</button>
            <button autofocus onClick={() => setValue(undefined)}>
              Close
            </button>
          </p>
        </Dialog>
      )}
    </div>
  );
}

function Gap({ height }: { height: number }) {
  return (
    <tr aria-hidden="true">
      <td class="gap" style={{ height: `${height}px` }} />
    </tr>
  );
}

function Cell({ value, type, open }: { value: Value; type: string; open: (value: Value) => void }) {
  if (value === null) return <td class="null">NULL</td>;
  const text = cell(value);
  const numeric = NUMERIC.test(type) ? "numeric" : "";
  if (text.length <= LONG) return <td class={numeric}>{text}</td>;
  return (
    <td>
      <button class="link cell" onClick={() => open(value)} title="Show the whole value">
        {text.slice(0, LONG)}…
      </button>
    </td>
  );
}
