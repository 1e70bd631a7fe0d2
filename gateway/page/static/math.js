// Converts formulas in TeX, as models write them, to MathML. What it doesn't know stays text.

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";
const DEEPEST = 16; // deeper groups are not opened
const PIECES = /\\[A-Za-z]+|\\[^]|\s+|\d+(?:\.\d+)?|[^]/gu;
const table = (text) => Object.fromEntries(text.trim().split(/\s+/).map((each) => each.split("=")));

const LETTERS = table(`alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν
  xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Phi=Φ Psi=Ψ
  Omega=Ω infty=∞ partial=∂ nabla=∇ ell=ℓ hbar=ℏ emptyset=∅ varnothing=∅ ldots=… dots=… cdots=⋯ vdots=⋮ ddots=⋱ prime=′ Re=ℜ Im=ℑ aleph=ℵ`);
const OPERATORS = table(`times=× cdot=⋅ div=÷ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠ approx=≈ equiv=≡ sim=∼ simeq=≃ cong=≅
  propto=∝ ll=≪ gg=≫ in=∈ notin=∉ ni=∋ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ cup=∪ cap=∩ setminus=∖ forall=∀ exists=∃ neg=¬ lnot=¬ land=∧ wedge=∧ lor=∨
  vee=∨ to=→ rightarrow=→ leftarrow=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ Leftrightarrow=⇔ implies=⇒ iff=⇔ mapsto=↦ uparrow=↑ downarrow=↓ mid=∣
  parallel=∥ perp=⊥ angle=∠ oplus=⊕ otimes=⊗ langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lvert=| rvert=| vert=| Vert=‖ backslash=\\ int=∫ iint=∬ oint=∮`);
const LARGE = table("sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ lim=lim max=max min=min sup=sup inf=inf");
const NAMES = new Set("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp det dim ker gcd deg arg mod".split(" "));
const ACCENTS = table("hat=^ widehat=^ bar=‾ overline=‾ vec=→ dot=˙ ddot=¨ tilde=~ widetilde=~");
const DOUBLE = table("R=ℝ N=ℕ Z=ℤ Q=ℚ C=ℂ P=ℙ E=𝔼");
const SPACES = { ",": ".17em", ":": ".22em", ";": ".28em", " ": ".25em", "!": "0", quad: "1em", qquad: "2em" };
const FENCES = { matrix: ["", ""], pmatrix: ["(", ")"], bmatrix: ["[", "]"], vmatrix: ["|", "|"], cases: ["{", ""], aligned: ["", ""], align: ["", ""], array: ["", ""] };

function element(name, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const child of children.flat()) made.append(child); // one by one: there may be too many for arguments
  return made;
}

class Reader {
  constructor(text) {
    this.pieces = text.match(PIECES) ?? [];
    this.at = 0;
    this.depth = 0;
  }

  get next() {
    return this.pieces[this.at];
  }

  /** The elements up to one of the pieces `ends`, which stays unread, or to the end. */
  row(...ends) {
    const made = [];
    while (this.at < this.pieces.length && !ends.includes(this.next)) {
      const piece = this.pieces[this.at++];
      if (/^\s/.test(piece)) continue;
      if (piece === "^" || piece === "_") made.push(this.script(made.pop() ?? element("mrow"), piece));
      else made.push(this.atom(piece));
    }
    return made;
  }

  /** The base with what follows the first of one or two scripts. */
  script(base, mark) {
    if ((base.scripts ?? 0) >= DEEPEST) return element("mrow", base, element("mo", mark));
    return Object.assign(this.scripted(base, mark), { scripts: (base.scripts ?? 0) + 1 });
  }

  scripted(base, mark) {
    const found = { [mark]: this.argument() };
    this.skipSpace();
    if ((this.next === "^" || this.next === "_") && this.next !== mark) found[this.pieces[this.at++]] = this.argument();
    const isLarge = base.isLarge;
    const { _: lower, "^": upper } = found;
    if (lower && upper) return element(isLarge ? "munderover" : "msubsup", base, lower, upper);
    if (lower) return element(isLarge ? "munder" : "msub", base, lower);
    return element(isLarge ? "mover" : "msup", base, upper);
  }

  skipSpace() {
    while (/^\s/.test(this.next ?? "")) this.at += 1;
  }

  /** One argument of a command or script: a group or the next piece. */
  argument() {
    this.skipSpace();
    if (this.next === undefined || this.next === "}") return element("mrow");
    return this.atom(this.pieces[this.at++]);
  }

  group() {
    this.depth += 1;
    const made = this.row("}");
    this.at += 1;
    this.depth -= 1;
    return made.length === 1 ? made[0] : element("mrow", made);
  }

  /** The text of a group, unchanged. */
  text() {
    this.skipSpace();
    if (this.next !== "{") return this.pieces[this.at++] ?? "";
    const end = this.pieces.indexOf("}", this.at);
    const taken = this.pieces.slice(this.at + 1, end < 0 ? undefined : end).join("");
    this.at = end < 0 ? this.pieces.length : end + 1;
    return taken;
  }

  atom(piece) {
    if (this.depth >= DEEPEST) return element("mtext", piece);
    if (piece === "{") return this.group();
    if (piece[0] === "\\" && piece.length > 1) return this.command(piece.slice(1));
    if (/^\d/.test(piece)) return element("mn", piece);
    if (/^\p{L}/u.test(piece)) return element("mi", piece);
    return element("mo", piece === "-" ? "−" : piece);
  }

  command(name) {
    this.depth += 1;
    try {
      return this.known(name) ?? element("mtext", `\\${name}`);
    } finally {
      this.depth -= 1;
    }
  }

  known(name) {
    if (name in LETTERS) return element("mi", LETTERS[name]);
    if (name in OPERATORS) return element("mo", OPERATORS[name]);
    if (name in LARGE) return Object.assign(element("mo", LARGE[name]), { isLarge: true });
    if (NAMES.has(name)) return element("mi", name);
    if (name in SPACES) return this.space(SPACES[name]);
    if (name in ACCENTS) return element("mover", this.argument(), element("mo", ACCENTS[name]));
    if (/^[dt]?frac$/.test(name)) return element("mfrac", this.argument(), this.argument());
    if (name === "binom") return element("mrow", element("mo", "("), this.bare(element("mfrac", this.argument(), this.argument())), element("mo", ")"));
    if (name === "sqrt") return this.root();
    if (/^(text|textbf|textit|mathrm|operatorname|mbox)$/.test(name)) return element("mtext", this.text());
    if (/^math(bb|bf|cal|it|sf|frak|scr)$|^boldsymbol$/.test(name)) return element("mi", [...this.text()].map((each) => (name === "mathbb" ? DOUBLE[each] ?? each : each)).join(""));
    if (/^(left|right|big|Big|bigl|bigr|Bigl|Bigr|middle)$/.test(name)) return this.fence();
    if (name === "begin") return this.environment();
    if (/^(displaystyle|textstyle|limits|nolimits|nonumber)$/.test(name)) return element("mrow");
    return /^[{}$%&#_|]$/.test(name) ? element("mo", name === "|" ? "‖" : name) : undefined;
  }

  bare(fraction) {
    fraction.setAttribute("linethickness", "0");
    return fraction;
  }

  space(width) {
    const made = element("mspace");
    made.setAttribute("width", width);
    return made;
  }

  root() {
    this.skipSpace();
    if (this.next !== "[") return element("msqrt", this.argument());
    this.at += 1;
    const degree = element("mrow", this.row("]"));
    this.at += 1;
    return element("mroot", this.argument(), degree);
  }

  fence() {
    this.skipSpace();
    const piece = this.pieces[this.at++] ?? ".";
    const name = piece.slice(1);
    return element("mo", piece === "." ? "" : piece[0] === "\\" && piece.length > 1 ? OPERATORS[name] ?? name : piece);
  }

  /** A table, from \begin{…} to \end{…}. */
  environment() {
    const [open, close] = FENCES[this.text().replace("*", "")] ?? ["", ""];
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(element("mtd", this.row("&", "\\\\", "\\end")));
      const piece = this.pieces[this.at++];
      if (piece === "\\\\") rows.push([]);
      else if (piece !== "&") break;
    }
    this.text(); // the name after \end
    const made = element("mtable", rows.map((cells) => element("mtr", cells)));
    return element("mrow", element("mo", open), made, element("mo", close));
  }
}

/** The element of a formula; `isBlock`: centred on separate lines. */
export function math(text, isBlock) {
  const reader = new Reader(text);
  const made = element("math");
  while (reader.at < reader.pieces.length) {
    for (const each of reader.row("}")) made.append(each);
    reader.at += 1; // a bracket that nothing opened
  }
  if (isBlock) made.setAttribute("display", "block");
  return made;
}
