// Starts the server with the user's interpreter, and shows what the protocol has no words for.

import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  type ServerOptions,
} from "vscode-languageclient/node";

import { candidates, choose } from "./interpreter";
import { byStatus, label, LOOKS, type Marks, MarkStore } from "./marks";

const NAME = "pygraph-lint";
let client: LanguageClient | undefined;
let log: vscode.LogOutputChannel;
let status: vscode.LanguageStatusItem;
const marks = new MarkStore();
const looks = new Map<string, vscode.TextEditorDecorationType>();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  log = vscode.window.createOutputChannel(NAME, { log: true });
  status = vscode.languages.createLanguageStatusItem(NAME, { language: "python" });
  status.name = NAME;
  for (const [name, look] of Object.entries(LOOKS)) {
    looks.set(name, decoration(look.color));
  }
  const commands: [string, () => unknown][] = [
    ["restartServer", restart],
    ["fixAll", fixAll],
    ["showLog", () => log.show()],
  ];
  context.subscriptions.push(
    log,
    status,
    ...looks.values(),
    ...commands.map(([name, run]) => vscode.commands.registerCommand(`${NAME}.${name}`, run)),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(NAME)) {
        void restart();
      }
    }),
    vscode.window.onDidChangeVisibleTextEditors(showMarks),
    vscode.workspace.onDidChangeTextDocument(showMarks),
    vscode.workspace.onDidCloseTextDocument((document) => marks.forget(document.uri.toString())),
  );
  const python = await pythonExtension();
  const changed = python?.environments?.onDidChangeActiveEnvironmentPath?.(() => void restart());
  if (changed) {
    context.subscriptions.push(changed);
  }
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration(NAME);
}

// --- the server -----------------------------------------------------------------------------------

interface PythonExtension {
  environments?: {
    getActiveEnvironmentPath?: (resource?: vscode.Uri) => { path: string };
    onDidChangeActiveEnvironmentPath?: (listener: () => void) => vscode.Disposable;
  };
}

async function pythonExtension(): Promise<PythonExtension | undefined> {
  const extension = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
  try {
    return await extension?.activate();
  } catch (error) {
    log.warn(`the Python extension could not be asked: ${String(error)}`);
    return undefined;
  }
}

async function start(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const python = await pythonExtension();
  const active = python?.environments?.getActiveEnvironmentPath?.(folder).path;
  const windows = process.platform === "win32";
  const found = await choose(
    candidates(settings().get("interpreter", ""), active, folder?.fsPath, windows),
  );
  if (!("python" in found)) {
    status.severity = vscode.LanguageStatusSeverity.Error;
    status.text = `${NAME}: not running`;
    status.detail = found.text;
    log.error(found.text);
    void offerHelp(found.text, found.command);
    return;
  }
  log.info(`pygraph-lint ${found.version} of ${found.python}`);
  status.severity = vscode.LanguageStatusSeverity.Information;
  status.text = `${NAME} ${found.version}`;
  status.detail = found.python;
  client = make(found.python);
  client.onNotification("pygraph-lint/trace", (given: Marks) => {
    marks.put(given);
    showMarks();
  });
  await client.start();
}

function make(python: string): LanguageClient {
  const server: ServerOptions = { command: python, args: ["-m", "pygraph_lint", "server"] };
  const options: LanguageClientOptions = {
    documentSelector: [
      { scheme: "file", language: "python" },
      { notebook: "jupyter-notebook", language: "python" },
    ],
    outputChannel: log,
    initializationOptions: {
      settings: settings().get("settings", {}),
      codeLens: settings().get("codeLens", true),
    },
    // The server starts its worker again by itself; where the server ends, the user is asked.
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue }),
      closed: () => ({
        action: CloseAction.DoNotRestart,
        message: "The server ended. “pygraph-lint: Restart the server” starts it again.",
      }),
    },
  };
  return new LanguageClient(NAME, NAME, server, options);
}

async function restart(): Promise<void> {
  const old = client;
  client = undefined;
  marks.clear();
  try {
    await old?.dispose();
  } catch (error) {
    log.warn(String(error));
  }
  await start();
}

async function offerHelp(text: string, command: string | undefined): Promise<void> {
  const install = "Install in a terminal";
  const choosing = "Choose another interpreter";
  const buttons = command ? [install, choosing] : [choosing];
  const pressed = await vscode.window.showWarningMessage(
    command ? `${text} Install it with: ${command}` : text,
    ...buttons,
  );
  if (pressed === install && command) {
    const terminal = vscode.window.createTerminal(NAME);
    terminal.show();
    terminal.sendText(command, false); // the user presses Enter
  } else if (pressed === choosing) {
    await vscode.commands.executeCommand("workbench.action.openSettings", `${NAME}.interpreter`);
  }
}

async function fixAll(): Promise<void> {
  await vscode.commands.executeCommand("editor.action.codeAction", {
    kind: "source.fixAll.pygraph-lint",
    apply: "first",
  });
}

// --- what a trace says ----------------------------------------------------------------------------

function decoration(color: string): vscode.TextEditorDecorationType {
  const themed = new vscode.ThemeColor(color);
  return vscode.window.createTextEditorDecorationType({
    overviewRulerColor: themed,
    overviewRulerLane: vscode.OverviewRulerLane.Right,
    after: { color: themed, margin: "0 0 0 2em", fontStyle: "italic" },
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedClosed,
  });
}

function showMarks(): void {
  const wanted = settings().get("traceMarks", true);
  for (const editor of vscode.window.visibleTextEditors) {
    const document = editor.document;
    if (document.languageId !== "python") {
      continue;
    }
    const mine = wanted ? marks.of(document.uri.toString(), document.version) : [];
    for (const [name, group] of byStatus(mine)) {
      const look = looks.get(name);
      const shown = group.map((mark) => ({
        range: document.lineAt(Math.min(mark.range.start.line, document.lineCount - 1)).range,
        renderOptions: { after: { contentText: label(mark) } },
      }));
      if (look) {
        editor.setDecorations(look, shown);
      }
    }
  }
}
