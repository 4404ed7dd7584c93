"""Patches: cut row by row, and projected as a convolution with that stride would."""

from __future__ import annotations

import torch

from glassformer.nn.patches import ClassToken, PatchEmbedding, cut_patches

B, C, SIDE, D = 2, 3, 5, 13


def test_a_patch_has_its_square_of_every_channel() -> None:
    image_BCYX = torch.randn(B, C, 2 * SIDE, 3 * SIDE)
    patches = cut_patches(image_BCYX, SIDE)
    assert patches.shape == (B, 6, C * SIDE * SIDE)
    square = image_BCYX[1, :, SIDE:, 2 * SIDE :]  # the last of the second row
    torch.testing.assert_close(patches[1, 5], square.flatten())


def test_the_projection_is_a_convolution() -> None:
    embed, image_BCYX = PatchEmbedding(C, SIDE, D), torch.randn(B, C, 2 * SIDE, 3 * SIDE)
    kernel = embed.project.weight.view(D, C, SIDE, SIDE)
    expected = torch.nn.functional.conv2d(image_BCYX, kernel, embed.project.bias, stride=SIDE).flatten(2).mT
    torch.testing.assert_close(embed(image_BCYX), expected, rtol=1e-4, atol=1e-4)


def test_the_class_token_comes_first() -> None:
    token, x_BPD = ClassToken(D), torch.randn(B, 7, D)
    out = token(x_BPD)
    assert out.shape == (B, 8, D)
    torch.testing.assert_close(out[1, 0], token.weight_D)
    torch.testing.assert_close(out[:, 1:], x_BPD)
