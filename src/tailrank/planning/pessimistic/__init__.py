"""Plans that hold in every model that records allow: `induction` plans and judges, `reach` says where a plan goes."""
