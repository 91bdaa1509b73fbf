// Bundles src/ into ../static/, with the licences of what is bundled and the hash of what it was made from.
// `make console` runs it; nobody who uses Shoal does.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, rmSync, writeFileSync, copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const out = "../static";
const tests = "../../../tests/shoal/console";

for (const name of readdirSync(out)) rmSync(join(out, name));
const { metafile } = await build({
  entryPoints: ["src/main.tsx"],
  outdir: out,
  bundle: true,
  minify: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  chunkNames: "[name]-[hash]",
  metafile: true,
  legalComments: "none",
});
copyFileSync("src/index.html", join(out, "index.html"));
copyFileSync("src/icon.svg", join(out, "icon.svg"));
copyFileSync("node_modules/axe-core/axe.min.js", join(tests, "axe.min.js")); // only the tests load it

const packages = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
const notices = [...packages].sort().map((name) => {
  const folder = join("node_modules", name);
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((item) => /^licen[sc]e(\.|$)/i.test(item));
  if (!file) throw new Error(`${name} has no licence file`);
  return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(out, "licences.txt"), notices.join("\n" + "-".repeat(80) + "\n\n"));

// The same order and bytes as tests/shoal/console/test_bundle.py reads.
const hash = createHash("sha256");
const sources = ["build.mjs", "package-lock.json", "tsconfig.json", ...readdirSync("src").sort().map((name) => `src/${name}`)];
for (const name of sources) {
  if (!existsSync(name)) throw new Error(`${name} is missing`);
  hash.update(name + "\0").update(readFileSync(name));
}
writeFileSync(join(out, "made-from.txt"), hash.digest("hex") + "\n");
