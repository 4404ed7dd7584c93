// Run the script of an exported page without a browser: `node check.mjs PAGE.html < job.json`, prints JSON.
//
// The job has the lines to encode and to decode, and the options. The script and the weights are taken from the page.
/* global Buffer, console, process */
import { readFileSync } from "node:fs";

const html = readFileSync(process.argv[2], "utf8");
const { lines, texts, options } = JSON.parse(readFileSync(0, "utf8"));

function script(id) {
  const start = html.indexOf(">", html.indexOf(`id="${id}"`)) + 1;
  return html.slice(start, html.indexOf("</script>", start));
}

await import(`data:text/javascript;base64,${Buffer.from(script("code")).toString("base64")}`);
const model = await globalThis.PageModel.open(script("payload"));
const answers = options.map(one =>
  texts.map(text => {
    const { text: output, tokens, labels } = model.run(text, one);
    return { text: output, tokens, labels };
  }),
);
const ids = lines.map(line => model.tokenizer.encode(line));
const decoded = ids.map(line => model.tokenizer.decode(line));
console.log(JSON.stringify({ ids, decoded, answers }));
