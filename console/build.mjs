// Bundles src/ into the assets that the Python package carries. `node build.mjs --check` says whether they are current.
//
// The manifest has a hash of all sources, so that assets that were forgotten are noticed also where no Node is.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, mkdirSync, rmSync, writeFileSync, copyFileSync } from "node:fs";
import { join, relative, dirname } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "../src/oarlock/server/console/assets");

function sources() {
  const files = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", "../src/oarlock/cli/doctor/advice.json"];
  for (const entry of readdirSync(join(here, "src"), { recursive: true, withFileTypes: true }))
    if (entry.isFile()) files.push(relative(here, join(entry.parentPath ?? entry.path, entry.name)));
  return files.map((file) => file.replaceAll("\\", "/")).sort();
}

function hashOfSources() {
  const hash = createHash("sha256");
  for (const file of sources()) hash.update(file).update("\0").update(readFileSync(join(here, file))).update("\0");
  return hash.digest("hex");
}

async function build() {
  const esbuild = await import("esbuild");
  rmSync(assets, { recursive: true, force: true });
  mkdirSync(assets, { recursive: true });
  const built = await esbuild.build({
    entryPoints: { main: join(here, "src/main.tsx") },
    outdir: assets,
    bundle: true,
    splitting: true,
    format: "esm",
    target: ["chrome110", "firefox115", "safari16.4"],
    minify: true,
    jsx: "automatic",
    jsxImportSource: "preact",
    chunkNames: "[name]-[hash]",
    legalComments: "none",
    define: { "process.env.NODE_ENV": '"production"' },
    metafile: true,
  });
  copyFileSync(join(here, "src/index.html"), join(assets, "index.html"));
  copyFileSync(join(here, "src/icon.svg"), join(assets, "icon.svg"));
  writeFileSync(join(assets, "licenses.txt"), licenses(Object.keys(built.metafile.inputs)));
  const files = readdirSync(assets).sort();
  const manifest = { sources: hashOfSources(), files };
  writeFileSync(join(assets, "manifest.json"), JSON.stringify(manifest, null, 1) + "\n");
  const total = files.reduce((sum, file) => sum + readFileSync(join(assets, file)).length, 0);
  console.log(`${files.length} files, ${Math.round(total / 1024)} KiB`);
}

// The licences of the packages that are in the bundle, each once.
function licenses(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) packages.add(found[1]);
  }
  return [...packages].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : String(about.license);
    return `${name} ${about.version} (${about.license})\n\n${text}\n`;
  }).join("\n" + "-".repeat(78) + "\n\n");
}

if (process.argv.includes("--check")) {
  const manifest = JSON.parse(readFileSync(join(assets, "manifest.json"), "utf8"));
  if (manifest.sources !== hashOfSources()) {
    console.error("the console's assets aren't made of its sources as they are: run make console");
    process.exit(1);
  }
} else {
  await build();
}
