// SQL text cut into statements, as psql does it: quotes, dollar quotes, comments, parentheses and the bodies of
// BEGIN ATOMIC keep their semicolons (PostgreSQL 16 manual, 4.1).

export interface Statement {
  from: number;
  to: number;
  text: string;
}

const DOLLAR = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y;

/** The statements of a text, without their semicolons and the blanks around them. Empty ones are left out. */
export function split(text: string): Statement[] {
  const found: Statement[] = [];
  let start = 0;
  let at = 0;
  let depth = 0;
  let atomic = 0; // how many BEGIN ATOMIC and CASE are open
  let before = "";

  const end = (to: number) => {
    const piece = text.slice(start, to);
    const blank = piece.length - piece.trimStart().length;
    const trimmed = piece.trim();
    if (withoutComments(trimmed)) found.push({ from: start + blank, to: start + blank + trimmed.length, text: trimmed });
  };

  while (at < text.length) {
    const sign = text[at]!;
    const next = skipped(text, at, before);
    if (next > at) {
      at = next;
      before = "";
      continue;
    }
    WORD.lastIndex = at;
    const word = WORD.exec(text)?.[0].toUpperCase();
    if (word) {
      if (before === "BEGIN" && word === "ATOMIC") atomic += 1;
      else if (atomic && word === "CASE") atomic += 1;
      else if (atomic && word === "END") atomic -= 1;
      before = word;
      at += word.length;
      continue;
    }
    if (sign === "(") depth += 1;
    else if (sign === ")") depth = Math.max(0, depth - 1);
    else if (sign === ";" && depth === 0 && atomic === 0) {
      end(at);
      start = at + 1;
    }
    if (sign.trim()) before = "";
    at += 1;
  }
  end(text.length);
  return found;
}

/** The statement at a place of the text: the one around it, or the last one before it. */
export function at(text: string, place: number): Statement | undefined {
  const all = split(text);
  return all.find((item) => place >= item.from && place <= item.to + 1) ?? all.filter((item) => item.from <= place).pop() ?? all[0];
}

/** Where a quoted piece or a comment that begins at `from` ends; `from` itself where none does. */
function skipped(text: string, from: number, before: string): number {
  const two = text.slice(from, from + 2);
  if (two === "--") return lineEnd(text, from);
  if (two === "/*") return commentEnd(text, from);
  const sign = text[from]!;
  if (sign === "'" || sign === '"') return quoteEnd(text, from, sign, sign === "'" && /^E$/.test(before) && /[eE]/.test(text[from - 1] ?? ""));
  if (sign === "$" && !/[\w$]/.test(text[from - 1] ?? "")) {
    DOLLAR.lastIndex = from;
    const tag = DOLLAR.exec(text)?.[0];
    if (tag) {
      const close = text.indexOf(tag, from + tag.length);
      return close < 0 ? text.length : close + tag.length;
    }
  }
  return from;
}

function lineEnd(text: string, from: number): number {
  const close = text.indexOf("\n", from);
  return close < 0 ? text.length : close;
}

function commentEnd(text: string, from: number): number {
  let depth = 1;
  let place = from + 2;
  while (place < text.length && depth) {
    const two = text.slice(place, place + 2);
    if (two === "/*" || two === "*/") {
      depth += two === "/*" ? 1 : -1;
      place += 2;
    } else place += 1;
  }
  return place;
}

function quoteEnd(text: string, from: number, quote: string, escapes: boolean): number {
  let place = from + 1;
  while (place < text.length) {
    if (escapes && text[place] === "\\") place += 2;
    else if (text[place] !== quote) place += 1;
    else if (text[place + 1] === quote) place += 2;
    else return place + 1;
  }
  return text.length;
}

/** The text without its comments, for telling what a statement is. */
export function withoutComments(text: string): string {
  let out = "";
  let place = 0;
  while (place < text.length) {
    const two = text.slice(place, place + 2);
    if (two === "--") place = lineEnd(text, place);
    else if (two === "/*") place = commentEnd(text, place);
    else {
      const next = skipped(text, place, "");
      const to = next > place ? next : place + 1;
      out += text.slice(place, to);
      place = to;
    }
  }
  return out.trim();
}
