// Builds the package in its folder: TypeScript from the contract into src/gen, then JavaScript and types into dist.
// npm runs it when the package is installed from its folder or packed. Usage: node build.mjs [PROTO_FOLDER]
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const folder = dirname(fileURLToPath(import.meta.url));
const contract = resolve(process.argv[2] ?? join(folder, "..", "..", "generated", "proto"));
const bin = join(folder, "node_modules", ".bin");
const path = bin + delimiter + process.env.PATH;
const run = (command, ...words) =>
  execFileSync(command, words, { cwd: folder, stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, PATH: path } });

if (!existsSync(join(contract, "sluice", "v1"))) {
  console.error(`sluice-client: no contract in ${contract}; install from a checkout, or from a release's archive`);
  process.exit(1);
}
if (!["buf", "protoc-gen-es", "tsc"].every((tool) => existsSync(join(bin, tool)))) {
  // Installed as another package's dependency, this folder has no development packages.
  run("npm", "install", "--ignore-scripts", "--include=dev", "--no-audit", "--no-fund", "--no-package-lock");
}
rmSync(join(folder, "src", "gen"), { recursive: true, force: true });
rmSync(join(folder, "dist"), { recursive: true, force: true });
const opt = ["target=ts", "import_extension=js"];
const template = JSON.stringify({ version: "v2", plugins: [{ local: "protoc-gen-es", out: join("src", "gen"), opt }] });
for (const words of [[contract, "--path", join(contract, "sluice", "v1")], ["proto"]]) {
  run("buf", "generate", ...words, "--template", template);
}
run("tsc", "--project", ".");
if (!readdirSync(join(folder, "dist")).includes("index.js")) throw new Error("tsc wrote no dist/index.js");
