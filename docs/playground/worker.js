// varsim in a worker: one interpreter, to which scenarios are sent one after the other.
import { WASI, File, OpenFile, Directory, PreopenDirectory, ConsoleStdout } from "./node_modules/@bjorn3/browser_wasi_shim/dist/index.js";

const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
const said = { out: [], err: [] };

async function start() {
  const [module, library, app, prelude, facts] = await Promise.all([
    WebAssembly.compileStreaming(fetch("python.wasm")), bytes("python-stdlib.zip"), bytes("app.zip"),
    (await fetch("prelude.py")).text(), (await fetch("runtime.json")).json(),
  ]);
  const folder = (names) => new Directory(new Map(names));
  const fixed = (path, content) => {
    const cut = path.lastIndexOf("/");
    return new PreopenDirectory(path.slice(0, cut), new Map([[path.slice(cut + 1), new File(content, { readonly: true })]]));
  };
  const files = [
    new OpenFile(new File([])),
    ConsoleStdout.lineBuffered((line) => said.out.push(line)),
    ConsoleStdout.lineBuffered((line) => said.err.push(line)),
    fixed(facts.library, library),
    new PreopenDirectory(`${facts.library}/matplotlib/mpl-data`, new Map()),
    fixed("/app/app.zip", app),
    new PreopenDirectory("/", new Map([["tmp", folder([["home", folder([])]])]])),
  ];
  const wasi = new WASI(["/usr/local/bin/python.wasm"], ["TMPDIR=/tmp", "PYTHONTZPATH=", "HOME=/tmp/home"], files, { debug: false });
  const { exports } = (wasi.inst = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi.wasiImport, host: { call: () => -1 } }));
  exports._initialize();
  const turn = (code) => {
    const text = new TextEncoder().encode(code), at = exports.host_alloc(text.length) >>> 0;
    new Uint8Array(exports.memory.buffer).set(text, at);
    said.out = [];
    said.err = [];
    exports.turn(at, text.length);
    return { out: said.out.join("\n"), err: said.err.join("\n") };
  };
  const { err } = turn(`LIBRARY = ${JSON.stringify(facts.library)}\n${prelude}`);
  if (err) throw new Error(err);
  return turn;
}

const ready = start();
ready.then(() => postMessage({ ready: true }), (error) => postMessage({ failed: String(error) }));
onmessage = async ({ data }) => {
  try {
    postMessage((await ready)(`play(${JSON.stringify(data)})`));
  } catch (error) {
    postMessage({ failed: String(error) });
  }
};
