// The SQL editor: CodeMirror with PostgreSQL's words and the database's names. Loaded when it is first wanted.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface EditorActions {
  run: () => void;
  runAll: () => void;
  explain: () => void;
  escape: () => void;
  changed: (text: string) => void;
}

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], class: "tok-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "tok-string" },
  { tag: [tags.number, tags.bool, tags.null], class: "tok-number" },
  { tag: tags.comment, class: "tok-comment" },
  { tag: [tags.typeName, tags.standard(tags.name)], class: "tok-type" },
]);

const setMark = StateEffect.define<{ from: number; to: number } | null>();
const markField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, change) {
    let next = change.docChanged ? Decoration.none : marks;
    for (const effect of change.effects)
      if (effect.is(setMark))
        next = effect.value ? Decoration.set(Decoration.mark({ class: "cm-wrong" }).range(effect.value.from, effect.value.to)) : Decoration.none;
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Names that the editor completes: schemas, their tables, these tables' columns. */
export type Names = Record<string, Record<string, Completion[]>>;

/** Columns of the tables that the text names, also where no table's name stands before them. */
function columnsOf(names: Names): (context: CompletionContext) => CompletionResult | null {
  const tables = new Map<string, Completion[]>();
  for (const schema of Object.values(names)) for (const [name, columns] of Object.entries(schema)) tables.set(name, columns);
  return (context) => {
    const word = context.matchBefore(/[\w$]+/);
    if (!word || context.state.sliceDoc(word.from - 1, word.from) === ".") return null;
    const found = new Map<string, Completion>();
    for (const [name] of context.state.doc.toString().matchAll(/[A-Za-z_][\w$]*/g))
      for (const column of tables.get(name.toLowerCase()) ?? []) found.set(column.label, { ...column, boost: 2 });
    return found.size ? { from: word.from, options: [...found.values()], validFor: /^[\w$]*$/ } : null;
  };
}

export class Editor {
  private readonly language = new Compartment();
  private readonly view: EditorView;

  constructor(parent: HTMLElement, text: string, actions: EditorActions) {
    const nonce = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.content ?? "";
    const does = (action: () => void) => () => {
      closeCompletion(this.view);
      action();
      return true;
    };
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          EditorView.cspNonce.of(nonce),
          Prec.highest(
            keymap.of([
              { key: "Mod-Enter", run: does(actions.run) },
              { key: "Mod-Shift-Enter", run: does(actions.runAll) },
              { key: "Mod-Shift-e", run: does(actions.explain) },
            ]),
          ),
          lineNumbers(),
          highlightSpecialChars(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ icons: false }),
          highlightActiveLine(),
          syntaxHighlighting(colours),
          markField,
          placeholder("SELECT …   (Ctrl+Enter runs it)"),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "SQL editor" }),
          this.language.of(sql({ dialect: PostgreSQL, upperCaseKeywords: true })),
          keymap.of([
            ...completionKeymap,
            ...closeBracketsKeymap,
            ...historyKeymap,
            ...defaultKeymap,
            { key: "Escape", run: does(() => (this.view.contentDOM.blur(), actions.escape())) },
          ]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) actions.changed(update.state.doc.toString());
          }),
        ],
      }),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text }, selection: { anchor: text.length } });
  }

  /** Where the selection begins and ends. */
  get selection(): { from: number; to: number } {
    const { from, to } = this.view.state.selection.main;
    return { from, to };
  }

  complete(names: Names): void {
    const language = sql({ dialect: PostgreSQL, upperCaseKeywords: true, schema: names, defaultSchema: "public" });
    const columns = PostgreSQL.language.data.of({ autocomplete: columnsOf(names) });
    this.view.dispatch({ effects: this.language.reconfigure([language, columns]) });
  }

  /** Underlines what an error is about; null: nothing. */
  mark(place: { from: number; to: number } | null): void {
    const end = this.view.state.doc.length;
    const shown = place && place.from < place.to && place.to <= end ? place : null;
    this.view.dispatch({ effects: shown ? [setMark.of(shown), EditorView.scrollIntoView(shown.from)] : setMark.of(null) });
  }

  focus(): void {
    this.view.focus();
  }

  destroy(): void {
    this.view.destroy();
  }
}
