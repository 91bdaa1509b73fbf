// Who are you: a role of the database, its password, a database.
import { useState } from "preact/hooks";
import { api, RequestError, type Session } from "./api";
import { Failure } from "./ui";

export function Login({ onLogin }: { onLogin: (session: Session) => void }) {
  const [error, setError] = useState<RequestError>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const field = (name: string) => String(form.get(name) ?? "");
    setBusy(true);
    setError(undefined);
    try {
      onLogin(await api.logIn(field("user"), field("password"), field("database")));
    } catch (failed) {
      if (!(failed instanceof RequestError)) throw failed;
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)} aria-label="Log in">
        <h1>
          <img src="/console/icon.svg" alt="" width="36" height="36" /> Shoal
        </h1>
        <p class="muted">Log in with a role of the database.</p>
        {error && <Failure error={error} />}
        <label>
          Role
          <input name="user" autocomplete="username" required autofocus defaultValue="postgres" spellcheck={false} />
        </label>
        <label>
          Password <span class="muted small">empty if the role has none</span>
          <input name="password" type="password" autocomplete="current-password" />
        </label>
        <label>
          Database
          <input name="database" defaultValue="postgres" spellcheck={false} />
        </label>
        <button class="primary" disabled={busy}>
          {busy ? "Logging in …" : "Log in"}
        </button>
      </form>
    </main>
  );
}
