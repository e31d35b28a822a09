// What a trace says of lines: text behind them, and a color in the ruler.

/** A mark as the server sends it. */
export interface Mark {
  range: { start: { line: number; character: number }; end: { line: number; character: number } };
  status: string;
  text: string;
}

/** The marks of one version of a text. */
export interface Marks {
  uri: string;
  version: number | null;
  marks: Mark[];
}

export interface Look {
  /** A color of the theme. */
  color: string;
  sign: string;
}

/** How each status is shown; others are not. */
export const LOOKS: Readonly<Record<string, Look>> = {
  confirmed: { color: "editorError.foreground", sign: "●" },
  missed: { color: "editorWarning.foreground", sign: "◆" },
  observed: { color: "editorInfo.foreground", sign: "◆" },
  refuted: { color: "editorHint.foreground", sign: "○" },
};

/** The text behind a line. */
export function label(mark: Mark): string {
  const sign = LOOKS[mark.status]?.sign ?? "";
  return `${sign} trace: ${mark.status}${mark.text && mark.text !== mark.status ? `, ${mark.text}` : ""}`;
}

/** The marks by status, one for each line and status. */
export function byStatus(marks: Mark[]): Map<string, Mark[]> {
  const found = new Map<string, Mark[]>(Object.keys(LOOKS).map((status) => [status, []]));
  const seen = new Set<string>();
  for (const mark of marks) {
    const key = `${mark.status} ${mark.range.start.line}`;
    if (!seen.has(key)) {
      seen.add(key);
      found.get(mark.status)?.push(mark);
    }
  }
  return found;
}

/** Keeps the newest marks of each text. */
export class MarkStore {
  private readonly kept = new Map<string, Marks>();

  put(marks: Marks): void {
    this.kept.set(marks.uri, marks);
  }

  forget(uri: string): void {
    this.kept.delete(uri);
  }

  clear(): void {
    this.kept.clear();
  }

  /** The marks of a text; none where it has changed since. */
  of(uri: string, version: number): Mark[] {
    const marks = this.kept.get(uri);
    return marks && (marks.version === null || marks.version === version) ? marks.marks : [];
  }
}
