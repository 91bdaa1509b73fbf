// The command palette, and the list of shortcuts.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, records } from "./api";
import { quoted } from "./format";
import { Dialog } from "./ui";

export interface Command {
  title: string;
  /** How it is called without the palette; '' where it is not. */
  keys: string;
  run: () => void;
}

const SHOWN = 50;

export function Palette({ commands, onClose, open }: { commands: Command[]; onClose: () => void; open: (sql: string) => void }) {
  const [words, setWords] = useState("");
  const [chosen, setChosen] = useState(0);
  const [tables, setTables] = useState<Command[]>([]);
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    const found = async () => {
      const names = new Set<string>();
      for (const row of records((await api.view("schema")).columns))
        names.add(`${quoted(String(row.schema))}.${quoted(String(row.name))}`);
      setTables([...names].map((name) => ({ title: `Open ${name}`, keys: "", run: () => open(`SELECT * FROM ${name} LIMIT 100`) })));
    };
    found().catch(() => undefined); // the commands are there without them
  }, []);
  const shown = useMemo(() => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    return [...commands, ...tables].filter((item) => wanted.every((word) => item.title.toLowerCase().includes(word))).slice(0, SHOWN);
  }, [words, commands, tables]);
  const at = Math.min(chosen, shown.length - 1);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const take = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen(Math.min(at + 1, shown.length - 1));
    else if (event.key === "ArrowUp") setChosen(Math.max(at - 1, 0));
    else if (event.key === "Enter") take(shown[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Commands" onClose={onClose} class="palette">
      <input
        autofocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={shown[at] ? `palette-${at}` : undefined}
        aria-label="Search commands and tables"
        placeholder="Search commands and tables"
        value={words}
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={pressed}
      />
      <ul id="palette-list" role="listbox" aria-label="Commands" ref={list}>
        {shown.map((item, index) => (
          <li id={`palette-${index}`} key={item.title} role="option" aria-selected={index === at} onClick={() => take(item)}>
            {item.title}
            <Keys keys={item.keys} />
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p class="muted">No matches.</p>}
    </Dialog>
  );
}

function Keys({ keys }: { keys: string }) {
  return (
    <span class="keys">
      {keys
        .split(" ")
        .filter(Boolean)
        .map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
    </span>
  );
}

const IN_EDITOR = [
  ["Run the statement at the cursor, or the selection", "Ctrl Enter"],
  ["Run all statements", "Ctrl Shift Enter"],
  ["Run and explain, as a tree", "Ctrl Shift E"],
  ["Complete a name", "Ctrl Space"],
  ["Leave the editor; cancel the running statement", "Esc"],
] as const;

export function Shortcuts({ commands, onClose }: { commands: Command[]; onClose: () => void }) {
  const general = [
    ["Commands and tables", "Ctrl K"],
    ["Search on this page, or go to the editor", "/"],
    ...commands.filter((item) => item.keys).map((item) => [item.title, item.keys]),
  ] as [string, string][];
  return (
    <Dialog title="Shortcuts" onClose={onClose}>
      <h2>Shortcuts</h2>
      <ShortcutList items={general} />
      <h2>In the editor</h2>
      <ShortcutList items={IN_EDITOR} />
      <p class="buttons">
        <button autofocus onClick={onClose}>
          Close
        </button>
      </p>
    </Dialog>
  );
}

function ShortcutList({ items }: { items: readonly (readonly [string, string])[] }) {
  return (
    <dl class="shortcuts">
      {items.map(([title, keys]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            <Keys keys={keys} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
