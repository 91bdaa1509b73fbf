// EXPLAIN's lines as a tree.

export interface Step {
  title: string;
  details: string[];
  inputs: Step[];
}

export interface Plan {
  steps: Step[];
  /** What is said of the whole: Path, Actual Rows, Execution Time. */
  facts: [string, string][];
}

/** The tree that the lines of EXPLAIN's text stand for: an arrow begins a step under the one that is indented less. */
export function parsed(lines: string[]): Plan {
  const steps: Step[] = [];
  const facts: [string, string][] = [];
  let open: { step: Step; indent: number }[] = [];
  for (const line of lines) {
    const indent = line.length - line.trimStart().length;
    const content = line.trim();
    if (!content) continue;
    const fact = /^(Path|Actual Rows|Planning Time|Execution Time): (.*)$/.exec(content);
    if (indent === 0 && fact) {
      facts.push([fact[1]!, fact[2]!]);
      open = [];
    } else if (content.startsWith("->") || indent === 0) {
      const step: Step = { title: content.replace(/^->\s*/, ""), details: [], inputs: [] };
      open = open.filter((item) => item.indent < indent);
      const parent = open[open.length - 1];
      (parent ? parent.step.inputs : steps).push(step);
      open.push({ step, indent });
    } else {
      open[open.length - 1]?.step.details.push(content);
    }
  }
  return { steps, facts };
}

export function PlanTree({ lines }: { lines: string[] }) {
  const plan = parsed(lines);
  return (
    <div class="plan">
      {plan.facts.length > 0 && (
        <dl class="plan-facts">
          {plan.facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      <ul class="tree" aria-label="Plan">
        {plan.steps.map((step, at) => (
          <StepOf key={at} step={step} />
        ))}
      </ul>
    </div>
  );
}

function StepOf({ step }: { step: Step }) {
  return (
    <li>
      <div class="step">
        <strong>{step.title}</strong>
        {step.details.map((detail) => (
          <code key={detail}>{detail}</code>
        ))}
      </div>
      {step.inputs.length > 0 && (
        <ul>
          {step.inputs.map((input, at) => (
            <StepOf key={at} step={input} />
          ))}
        </ul>
      )}
    </li>
  );
}
