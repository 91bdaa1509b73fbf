// Views that stay current: asked again while the page is looked at, one question at a time.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { api, RequestError, type View } from "./api";

export interface Live {
  view: View | undefined;
  error: RequestError | undefined;
  /** When the answer came, milliseconds since 1970. */
  at: number;
  reload: () => void;
}

let paused = false;
const watchers = new Set<() => void>();

export function isPaused(): boolean {
  return paused;
}

export function pause(value: boolean): void {
  paused = value;
  for (const watcher of watchers) watcher();
}

export function usePaused(): boolean {
  const [, render] = useState(0);
  useEffect(() => {
    const watcher = () => render((n) => n + 1);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return paused;
}

/** A view by its name, asked for every `seconds`. After a failure the pause grows, to 30 s at most. */
export function useView(name: string, seconds: number): Live {
  const [state, setState] = useState<Omit<Live, "reload">>({ view: undefined, error: undefined, at: 0 });
  const asking = useRef(false);
  const ended = useRef(false);

  const ask = useCallback(async (): Promise<boolean> => {
    if (asking.current) return true;
    asking.current = true;
    try {
      const view = await api.view(name);
      if (!ended.current) setState({ view, error: undefined, at: Date.now() });
      return true;
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      if (!ended.current) setState((before) => ({ ...before, error }));
      return false;
    } finally {
      asking.current = false;
    }
  }, [name]);

  useEffect(() => {
    ended.current = false;
    let timer = 0;
    let wait = seconds;
    const turn = async () => {
      if (!paused && !document.hidden) wait = (await ask()) ? seconds : Math.min(wait * 2, 30);
      if (!ended.current) timer = window.setTimeout(turn, wait * 1000);
    };
    void ask();
    timer = window.setTimeout(turn, seconds * 1000);
    const seen = () => {
      if (!document.hidden && !paused) void ask();
    };
    document.addEventListener("visibilitychange", seen);
    return () => {
      ended.current = true;
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [ask, seconds]);

  useEffect(() => {
    const again = () => void ask();
    window.addEventListener("shoal-reload", again);
    return () => window.removeEventListener("shoal-reload", again);
  }, [ask]);

  return { ...state, reload: () => void ask() };
}
