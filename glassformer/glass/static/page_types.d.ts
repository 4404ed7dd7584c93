/** The data of an exported page, written by glassformer/glass/html.py. */

export interface PageAttention {
  kind: string;
  layer: number;
  /** The tensor of attention weights. */
  name: string;
  heads: number;
  rows: string[];
  columns: string[];
}

export interface PageTensor {
  name: string;
  shape: number[];
  /** Index of its first number among the numbers of all tensors. */
  offset: number;
  formula?: string;
  parents?: string[];
  numpy?: string;
}

export interface PageTrace {
  texts: Record<string, string>;
  layers: PageAttention[];
  tensors: PageTensor[];
}
