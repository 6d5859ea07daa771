// Order of search results: what the query names in its title comes first. Read by Sphinx's searchtools.js.
"use strict";
var Scorer = {
  // result: [page, title, anchor, description, score, file, kind]
  score: (result) => {
    const words = (text) => text.toLowerCase().match(/[\w-]{3,}/g) || [];
    const asked = words(new URLSearchParams(window.location.search).get("q") || "");
    const alike = (a, b) => a.startsWith(b) || b.startsWith(a);
    const title = words(result[1]);
    const named = asked.filter((word) => title.some((other) => alike(word, other)));
    return result[4] + 10 * named.length - (result[0] === "changelog" ? 10 : 0);
  },
  // the values of Sphinx
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
