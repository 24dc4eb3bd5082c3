// Bundles each file of test/ and runs it with node:test, as Node itself reads no TypeScript.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "oarlock-console-"));
try {
  const names = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts"));
  await esbuild.build({
    entryPoints: names.map((name) => join(here, "test", name)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "browser", // as the page has them
    external: ["node:*"],
    format: "esm",
    logLevel: "warning",
  });
  const files = names.map((name) => join(folder, name.replace(/\.ts$/, ".mjs")));
  process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
