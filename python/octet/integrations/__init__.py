"""octet in libraries of models: octet.integrations.transformers and octet.integrations.diffusers, each imported by who has the library.

Models of any library that call torch's scaled_dot_product_attention (timm's among them) are patched by octet.torch.patch_model.
"""
