// As Sphinx scores what is found, but tables of everything, and what was changed when, come after pages that explain.
var Scorer = {
  score: ([page, , , , score]) => score - ({ changelog: 20, "reference/keys": 9, "reference/notes": 9 }[page] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
