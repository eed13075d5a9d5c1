// SPDX-License-Identifier: Apache-2.0
// Schemas in words, and examples of what they describe.

export class Schemas {
  constructor(components) {
    this.components = components;
  }

  resolve(schema) {
    return schema.$ref ? this.components[schema.$ref.split("/").pop()] : schema;
  }

  // The type in a few words: "string or null", "list of Message".
  type(schema) {
    if (schema.$ref) return schema.$ref.split("/").pop();
    if (schema.anyOf) return schema.anyOf.map((option) => this.type(option)).join(" or ");
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
    if (schema.type === "array") return `list of ${this.type(schema.items ?? {})}`;
    return schema.type ?? "anything";
  }

  // What else is asked of a value: bounds, form, default.
  bounds(schema) {
    const options = schema.anyOf ?? [schema];
    const told = options.flatMap((option) => [
      option.format,
      option.pattern && `matches ${option.pattern}`,
      option.minimum != null && `from ${option.minimum}`,
      option.maximum != null && `to ${option.maximum}`,
      option.minLength != null && `at least ${option.minLength} long`,
      option.maxLength != null && `at most ${option.maxLength} long`,
    ]);
    if (schema.default != null) told.push(`default ${JSON.stringify(schema.default)}`);
    return told.filter(Boolean).join(", ");
  }

  // The fields of an object as rows: name, type, whether required, bounds.
  fields(schema) {
    const object = this.resolve(schema);
    const required = new Set(object.required ?? []);
    return Object.entries(object.properties ?? {}).map(([name, field]) => [
      name,
      this.type(field),
      required.has(name) ? "required" : "",
      this.bounds(field),
    ]);
  }

  // Something to start from: the required fields, with placeholders.
  example(schema) {
    const resolved = this.resolve(schema);
    if (resolved.default !== undefined && resolved.default !== null) return resolved.default;
    if (resolved.enum) return resolved.enum[0];
    if (resolved.anyOf) return this.example(resolved.anyOf[0]);
    switch (resolved.type) {
      case "object": {
        const required = resolved.required ?? Object.keys(resolved.properties ?? {});
        return Object.fromEntries(
          required.map((name) => [name, this.example(resolved.properties[name])]),
        );
      }
      case "array":
        return [this.example(resolved.items ?? {})];
      case "integer":
        return resolved.minimum ?? 0;
      case "boolean":
        return false;
      case "string":
        return "";
      default:
        return null;
    }
  }
}
