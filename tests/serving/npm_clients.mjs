// Translates a sentence with the clients of npm and prints what they return: node npm_clients.mjs URL SENTENCE

import { translate as libretranslate } from "libretranslate";
import { libreTranslate } from "libretranslate-ts";
import translate from "translate";

const [url, sentence] = process.argv.slice(2);

translate.engine = "libre";
translate.url = `${url}/translate`;
translate.key = undefined;
libreTranslate.setApiEndpoint(url);
const withAlternatives = await libreTranslate.translate(sentence, "en", "fr", 2);

console.log(
  JSON.stringify({
    translate: await translate(sentence, { from: "en", to: "fr" }),
    libretranslate: await libretranslate({ query: sentence, source: "en", target: "fr", apiurl: url }),
    "libretranslate auto": await libretranslate({ query: sentence, target: "fr", apiurl: url }),
    "libretranslate-ts": { ...withAlternatives, alternatives: withAlternatives.alternatives.length },
    "libretranslate-ts languages": (await libreTranslate.listLanguages()).map(language => language.code),
    "libretranslate-ts detect": (await libreTranslate.detect(sentence)).language,
    "libretranslate-ts error": (await libreTranslate.translate(sentence, "xx", "fr")).error,
  }),
);
