"""FlashAttention-3's package, of which flash_attn_interface is what clients import."""
