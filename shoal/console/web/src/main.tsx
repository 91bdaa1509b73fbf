// The page: log-in, navigation, shortcuts, and the parts that it shows.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { LocksPage, StatementsPage } from "./activity";
import { api, forget, RequestError, whenLoggedOut, type Session } from "./api";
import { ClusterPage } from "./cluster";
import { Icon } from "./icons";
import { LogPage } from "./ledgers";
import { isPaused, pause } from "./live";
import { Login } from "./login";
import { Palette, Shortcuts, type Command } from "./palette";
import { offer, SqlPage } from "./sql";
import "./style.css";
import { TablesPage } from "./tables";
import { Failure, Loading, toast, Toasts } from "./ui";

const PAGES = [
  { name: "cluster", title: "Cluster", key: "c" },
  { name: "statements", title: "Statements", key: "s" },
  { name: "locks", title: "Locks", key: "l" },
  { name: "tables", title: "Tables", key: "t" },
  { name: "changelog", title: "Changelog", key: "o" },
  { name: "sql", title: "SQL", key: "q" },
];

const THEMES = ["system", "dark", "light"] as const;
type Theme = (typeof THEMES)[number];

function themeNow(): Theme {
  const kept = localStorage.getItem("shoal-theme");
  return THEMES.find((item) => item === kept) ?? "system";
}

function applyTheme(theme: Theme): void {
  localStorage.setItem("shoal-theme", theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function goTo(page: string): void {
  location.hash = `#/${page}`;
}

function useHash(): [string, string] {
  const read = () => location.hash.replace(/^#\/?/, "").split("/");
  const [parts, setParts] = useState(read);
  useEffect(() => {
    const changed = () => setParts(read());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return [parts[0] || "cluster", parts[1] ?? ""];
}

function App() {
  const [session, setSession] = useState<Session | null>();
  const [failure, setFailure] = useState<RequestError>();
  useEffect(() => {
    whenLoggedOut(() => {
      setSession(null);
      toast("Your login has expired.", "warn");
    });
    api.session().then(setSession, (error: unknown) => {
      if (!(error instanceof RequestError)) throw error;
      setFailure(error);
    });
  }, []);
  return (
    <>
      {session ? (
        <Shell session={session} onLogOut={() => setSession(null)} />
      ) : session === null ? (
        <Login onLogin={setSession} />
      ) : failure ? (
        <main class="alone">
          <Failure error={failure} />
          <button onClick={() => location.reload()}>Try again</button>
        </main>
      ) : (
        <Loading what="Opening the console" />
      )}
      <Toasts />
    </>
  );
}

function Shell({ session, onLogOut }: { session: Session; onLogOut: () => void }) {
  const [page, part] = useHash();
  const [dialog, setDialog] = useState<"palette" | "shortcuts">();
  const [theme, setTheme] = useState(themeNow);
  const main = useRef<HTMLElement>(null);

  const nextTheme = () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
    applyTheme(next);
    setTheme(next);
    toast(`Theme: ${next === "system" ? "the same as the system" : next}`);
  };
  const logOut = async () => {
    await api.logOut().catch(() => undefined);
    sessionStorage.clear();
    forget();
    onLogOut();
  };
  const commands: Command[] = [
    ...PAGES.map((item) => ({ title: `Go to ${item.title}`, keys: `g ${item.key}`, run: () => goTo(item.name) })),
    { title: "Go to the slowest statements", keys: "", run: () => goTo("statements/slowest") },
    { title: "Refresh this page", keys: "r", run: () => window.dispatchEvent(new Event("shoal-reload")) },
    { title: "Pause or resume live figures", keys: "p", run: () => pause(!isPaused()) },
    { title: "Change the theme (system, dark, light)", keys: "d", run: nextTheme },
    { title: "Show the shortcuts", keys: "?", run: () => setDialog("shortcuts") },
    { title: "Log out", keys: "", run: () => void logOut() },
  ];
  useShortcuts(commands, dialog !== undefined, () => setDialog("palette"));

  useEffect(() => {
    document.title = `${PAGES.find((item) => item.name === page)?.title ?? "Shoal"} – Shoal`;
    main.current?.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
    document.querySelector(".side nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [page]);

  const openInEditor = (sql: string) => {
    offer(sql);
    goTo("sql");
  };
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <aside class="side">
        <p class="brand">
          <img src="/console/icon.svg" alt="" width="26" height="26" /> Shoal
          {session.node && <span class="muted small brand-node">{session.node}</span>}
        </p>
        <nav aria-label="Pages">
          {PAGES.map((item) => (
            <a key={item.name} href={`#/${item.name}`} aria-current={page === item.name ? "page" : undefined} title={`g ${item.key}`}>
              <Icon name={item.name} />
              {item.title}
            </a>
          ))}
        </nav>
        <div class="side-end">
          <button class="ghost commands" onClick={() => setDialog("palette")} title="Ctrl+K">
            Commands <kbd>Ctrl K</kbd>
          </button>
          <button class="ghost" onClick={nextTheme} title="Colours (d)">
            Colours <span class="muted">{theme}</span>
          </button>
          <button class="ghost" onClick={() => setDialog("shortcuts")} title="?">
            Shortcuts <kbd>?</kbd>
          </button>
          <p class="who">
            <span>
              <strong>{session.user}</strong>
              <span class="muted small">{session.database}</span>
            </span>
            <button class="small" onClick={() => void logOut()}>
              Log out
            </button>
          </p>
        </div>
      </aside>
      <main id="main" ref={main} tabIndex={-1} class={`page page-${page}`}>
        <Page name={page} part={part} session={session} open={openInEditor} />
      </main>
      {dialog === "palette" && <Palette commands={commands} onClose={() => setDialog(undefined)} open={openInEditor} />}
      {dialog === "shortcuts" && <Shortcuts commands={commands} onClose={() => setDialog(undefined)} />}
    </div>
  );
}

function Page({ name, part, session, open }: { name: string; part: string; session: Session; open: (sql: string) => void }) {
  switch (name) {
    case "statements":
      return <StatementsPage key={part} part={part} open={open} />;
    case "locks":
      return <LocksPage />;
    case "tables":
      return <TablesPage open={open} />;
    case "changelog":
      return <LogPage />;
    case "sql":
      return <SqlPage session={session} />;
    default:
      return <ClusterPage />;
  }
}

/** Single keys, and `g` followed by a page's letter; none of them while somebody types. */
function useShortcuts(commands: Command[], inDialog: boolean, palette: () => void): void {
  const current = useRef({ commands, inDialog, palette });
  current.current = { commands, inDialog, palette };
  useEffect(() => {
    let begun = -Infinity; // when `g` was pressed
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.shiftKey) {
        event.preventDefault();
        if (!current.current.inDialog) current.current.palette();
        return;
      }
      const target = event.target as HTMLElement;
      const typing = target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
      if (typing || current.current.inDialog || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "g") {
        begun = event.timeStamp;
        return;
      }
      if (event.key === "/") {
        const search = document.querySelector<HTMLElement>(".search, .cm-content");
        if (search) {
          event.preventDefault();
          search.focus();
        }
        return;
      }
      const keys = event.timeStamp - begun < 1500 ? `g ${event.key}` : event.key;
      begun = -Infinity;
      const command = current.current.commands.find((item) => item.keys === keys);
      if (command) {
        event.preventDefault();
        command.run();
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

applyTheme(themeNow());
render(<App />, document.getElementById("app")!);
